// The ring of pinned pieces.
#include "targets/nvptx/staging.h"

#include <algorithm>
#include <cstring>

namespace tilewright::cuda {

Status Staging::prepare(Piece& piece) {
  if (!piece.memory)
    TW_RETURN_IF_ERROR(driver_.check(driver_.allocate_pinned(&piece.memory, kPieceBytes, 0),
                                     "cannot allocate pinned memory"));
  if (!piece.event)
    TW_RETURN_IF_ERROR(driver_.check(driver_.create_event(&piece.event, 2), "cannot make an event"));
  return wait(piece);
}

Status Staging::wait(Piece& piece) {
  if (!piece.in_flight) return Status::ok();
  piece.in_flight = false;
  return driver_.check(driver_.wait_for_event(piece.event), "a copy failed");
}

Status Staging::upload(DevicePointer to, const void* from, size_t bytes, void* stream) {
  if (bytes <= kDirectBytes)
    return driver_.check(driver_.copy_to_device(to, from, bytes, stream), "cannot copy to the device");
  std::lock_guard lock(mutex_);
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    Piece& piece = pieces_[next_++ % pieces_.size()];
    TW_RETURN_IF_ERROR(prepare(piece));
    const size_t count = std::min(kPieceBytes, bytes - at);
    std::memcpy(piece.memory, static_cast<const char*>(from) + at, count);
    TW_RETURN_IF_ERROR(driver_.check(driver_.copy_to_device(to + at, piece.memory, count, stream),
                                     "cannot copy to the device"));
    TW_RETURN_IF_ERROR(driver_.check(driver_.record_event(piece.event, stream), "cannot record an event"));
    piece.in_flight = true;
  }
  return Status::ok();
}

Status Staging::download(void* to, DevicePointer from, size_t bytes, void* stream) {
  if (bytes <= kDirectBytes) {
    TW_RETURN_IF_ERROR(
        driver_.check(driver_.copy_to_host(to, from, bytes, stream), "cannot copy from the device"));
    return driver_.check(driver_.synchronize_stream(stream), "work before a copy from the device failed");
  }
  std::lock_guard lock(mutex_);
  // One piece is copied out while the next one is on its way.
  struct Flight {
    Piece* piece = nullptr;
    size_t at = 0, count = 0;
  };
  Flight flight;
  const auto land = [&]() -> Status {
    if (!flight.piece) return Status::ok();
    TW_RETURN_IF_ERROR(wait(*flight.piece));
    std::memcpy(static_cast<char*>(to) + flight.at, flight.piece->memory, flight.count);
    return Status::ok();
  };
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    Flight started{&pieces_[next_++ % pieces_.size()], at, std::min(kPieceBytes, bytes - at)};
    TW_RETURN_IF_ERROR(prepare(*started.piece));
    TW_RETURN_IF_ERROR(
        driver_.check(driver_.copy_to_host(started.piece->memory, from + at, started.count, stream),
                      "cannot copy from the device"));
    TW_RETURN_IF_ERROR(
        driver_.check(driver_.record_event(started.piece->event, stream), "cannot record an event"));
    started.piece->in_flight = true;
    TW_RETURN_IF_ERROR(land());
    flight = started;
  }
  return land();
}

}  // namespace tilewright::cuda
