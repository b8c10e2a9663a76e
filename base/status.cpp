// Status: names, cause chains and their one-line form.
#include "base/status.h"

namespace tilewright {

const char* code_name(Code code) {
  switch (code) {
    case Code::Ok: return "OK";
    case Code::Cancelled: return "CANCELLED";
    case Code::Unknown: return "UNKNOWN";
    case Code::InvalidArgument: return "INVALID_ARGUMENT";
    case Code::DeadlineExceeded: return "DEADLINE_EXCEEDED";
    case Code::NotFound: return "NOT_FOUND";
    case Code::AlreadyExists: return "ALREADY_EXISTS";
    case Code::PermissionDenied: return "PERMISSION_DENIED";
    case Code::ResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::FailedPrecondition: return "FAILED_PRECONDITION";
    case Code::Aborted: return "ABORTED";
    case Code::OutOfRange: return "OUT_OF_RANGE";
    case Code::Unimplemented: return "UNIMPLEMENTED";
    case Code::Internal: return "INTERNAL";
    case Code::Unavailable: return "UNAVAILABLE";
    case Code::DataLoss: return "DATA_LOSS";
    case Code::Unauthenticated: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

static const std::string& empty_string() {
  static const std::string* empty = new std::string;  // never destroyed: usable during exit
  return *empty;
}

Status::Status(Code code, std::string message) {
  if (code == Code::Ok) return;
  detail_ = std::make_shared<Detail>(Detail{code, std::move(message), {}, nullptr});
}

const std::string& Status::message() const { return detail_ ? detail_->message : empty_string(); }
const std::string& Status::op() const { return detail_ ? detail_->op : empty_string(); }

Status Status::with_op(std::string op) && {
  if (!detail_) return *this;
  Status named;
  named.detail_ =
      std::make_shared<Detail>(Detail{detail_->code, detail_->message, std::move(op), detail_->cause});
  return named;
}

Status Status::because(std::string doing) const {
  if (!detail_) return *this;
  Status outer;
  outer.detail_ = std::make_shared<Detail>(
      Detail{detail_->code, std::move(doing), detail_->op, std::make_shared<Status>(*this)});
  return outer;
}

std::string Status::to_string() const {
  if (!detail_) return "OK";
  std::string text = std::string(code_name(detail_->code)) + ": " + detail_->message;
  if (!detail_->op.empty() && detail_->message.find(detail_->op) == std::string::npos)
    text += " [" + detail_->op + "]";
  for (const Status* cause = this->cause(); cause; cause = cause->cause())
    text += ": caused by " + cause->message();
  return text;
}

}  // namespace tilewright
