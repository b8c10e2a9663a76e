// Reference kernel of rng_bit_generator.
#include "ir/reference/philox.h"
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t even = uint64_t{0xD2511F53} * counter[0], odd = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

namespace {

// Words are written in row-major order of the dense output; 64-bit elements are two words, low first.
void fill_philox(uint64_t key, uint64_t counter, uint32_t* words, int64_t count) {
  std::array<uint32_t, 2> key_words{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  for (int64_t block = 0; block * 4 < count; ++block) {
    uint64_t position = counter + static_cast<uint64_t>(block);
    std::array<uint32_t, 4> four = philox4x32_10(
        {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0}, key_words);
    for (int64_t i = 0; i < 4 && block * 4 + i < count; ++i) words[block * 4 + i] = four[i];
  }
}

}  // namespace

Status reference_rng_bit_generator(KernelCall& call) {
  if (call.attributes.get_string("algorithm") != "philox4x32_10") {
    return Status::unimplemented(cat("rng_bit_generator: algorithm ", call.attributes.get_string("algorithm"),
                                     " has no reference kernel yet, use philox4x32_10"));
  }
  const TensorRef& state = call.in(0);
  uint64_t key = elements_of<const uint64_t>(state)[0];
  uint64_t counter = elements_of<const uint64_t>(state)[state.strides[0]];
  const TensorRef& bits = call.out(1);
  int64_t count = bits.bytes() / 4;
  fill_philox(key, counter, elements_of<uint32_t>(bits), count);
  elements_of<uint64_t>(call.out(0))[0] = key;
  elements_of<uint64_t>(call.out(0))[1] = counter + static_cast<uint64_t>((count + 3) / 4);
  return Status::ok();
}

}  // namespace tilewright
