// tw_status and tw_text: failures and text owned by the caller.
#include "capi/handles.h"

using namespace tilewright;

namespace tilewright::capi {
namespace {

// Several findings come as lines.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (char c : text) {
    if (c != '\n')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += "; ";
  }
  while (line.ends_with(' ') || line.ends_with(';')) line.pop_back();
  return line;
}

}  // namespace

tw_status* to_c(Status status) {
  if (status.is_ok()) return nullptr;
  auto made = std::make_unique<tw_status>();
  made->text = on_one_line(status.to_string());
  if (status.cause()) made->cause.reset(to_c(*status.cause()));
  made->status = std::move(status);
  return made.release();
}

Status take_status(tw_status* status) {
  if (!status) return Status::ok();
  Status taken = status->status;
  tw_status_release(status);
  return taken;
}

}  // namespace tilewright::capi

extern "C" {

int32_t tw_status_code(const tw_status* status) {
  return status ? static_cast<int32_t>(status->status.code()) : TW_OK;
}
const char* tw_status_message(const tw_status* status) {
  return status ? status->status.message().c_str() : "";
}
const char* tw_status_op(const tw_status* status) { return status ? status->status.op().c_str() : ""; }
const char* tw_status_text(const tw_status* status) { return status ? status->text.c_str() : ""; }
const tw_status* tw_status_cause(const tw_status* status) { return status ? status->cause.get() : nullptr; }

tw_status* tw_status_create(int32_t code, const char* message) {
  return capi::guarded(__func__, [&](const char*) {
    if (code == TW_OK) return Status::ok();
    const bool known = code > TW_OK && code <= TW_UNAUTHENTICATED;
    return Status(known ? static_cast<Code>(code) : Code::Unknown, message ? message : "");
  });
}

void tw_status_release(tw_status* status) {
  // Out of memory has one status for all.
  if (status && !(status->text == "out of memory" && !status->cause)) delete status;
}

const char* tw_status_code_name(int32_t code) {
  const bool known = code >= TW_OK && code <= TW_UNAUTHENTICATED;
  return code_name(known ? static_cast<Code>(code) : Code::Unknown);
}

const char* tw_text_data(const tw_text* text) { return text ? text->text.c_str() : ""; }
int64_t tw_text_size(const tw_text* text) { return text ? static_cast<int64_t>(text->text.size()) : 0; }
void tw_text_release(tw_text* text) { delete text; }

}  // extern "C"
