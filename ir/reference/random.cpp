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

void run_philox(const TensorRef& state, const TensorRef& state_out, uint32_t* words, int64_t count) {
  uint64_t key = elements_of<const uint64_t>(state)[0];
  uint64_t counter = elements_of<const uint64_t>(state)[state.strides[0]];
  fill_philox(key, counter, words, count);
  elements_of<uint64_t>(state_out)[0] = key;
  elements_of<uint64_t>(state_out)[1] = counter + static_cast<uint64_t>((count + 3) / 4);
}

constexpr int64_t kWords = 624, kMiddle = 397;

// Replaces all words of a Mersenne Twister by the next block.
void twist(uint32_t* state) {
  for (int64_t i = 0; i < kWords; ++i) {
    uint32_t joined = (state[i] & 0x80000000u) | (state[(i + 1) % kWords] & 0x7fffffffu);
    state[i] = state[(i + kMiddle) % kWords] ^ (joined >> 1) ^ ((joined & 1) ? 0x9908b0dfu : 0);
  }
}

uint32_t temper(uint32_t word) {
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

// The state is a block of 624 words and the number of them that were drawn (624 after seeding).
Status run_mersenne_twister(const TensorRef& state, const TensorRef& state_out, uint32_t* words,
                            int64_t count) {
  copy_elements(state_out, state);
  uint32_t* block = elements_of<uint32_t>(state_out);
  uint32_t& drawn = block[kWords];
  if (drawn > kWords) {
    return Status::invalid(
        cat("rng_bit_generator: position ", drawn, " of the mt19937 state exceeds ", kWords));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (drawn == kWords) {
      twist(block);
      drawn = 0;
    }
    words[i] = temper(block[drawn++]);
  }
  return Status::ok();
}

}  // namespace

Status reference_rng_bit_generator(KernelCall& call) {
  const TensorRef& bits = call.out(1);
  uint32_t* words = elements_of<uint32_t>(bits);
  int64_t count = bits.bytes() / 4;
  if (call.attributes.get_string("algorithm") == "mt19937_torch") {
    return run_mersenne_twister(call.in(0), call.out(0), words, count);
  }
  run_philox(call.in(0), call.out(0), words, count);
  return Status::ok();
}

}  // namespace tilewright
