// Staging: copies between host and device through pinned memory, in pieces.
#pragma once

#include <array>
#include <mutex>

#include "targets/nvptx/driver.h"

namespace tilewright::cuda {

// Thread-safe; call with the context entered.  Its memory stays for the life of the process.
class Staging {
 public:
  explicit Staging(const Driver& driver) : driver_(driver) {}

  // The host's memory is free on return, the copy is ordered on the stream.
  Status upload(DevicePointer to, const void* from, size_t bytes, void* stream);
  // The host's memory is filled on return.
  Status download(void* to, DevicePointer from, size_t bytes, void* stream);

 private:
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  static constexpr size_t kDirectBytes = size_t{64} << 10;  // the driver stages these itself

  struct Piece {
    void* memory = nullptr;
    void* event = nullptr;  // recorded behind the last copy from it
    bool in_flight = false;
  };
  Status prepare(Piece& piece);
  Status wait(Piece& piece);

  const Driver& driver_;
  std::mutex mutex_;
  std::array<Piece, 4> pieces_;
  size_t next_ = 0;
};

}  // namespace tilewright::cuda
