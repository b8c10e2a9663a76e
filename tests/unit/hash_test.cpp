// Hash128 and Hasher.
#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/build_id.h"

namespace tilewright {
namespace {

TEST(Hash, KnownValues) {
  // XXH3-128 of the empty input with seed 0, from the specification's test vectors.
  EXPECT_EQ(hash_bytes("").to_hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash_bytes("a"), hash_bytes("b"));
}

TEST(Hash, HexRoundTrip) {
  Hash128 hash = hash_bytes("tile");
  EXPECT_EQ(Hash128::from_hex(hash.to_hex()), hash);
  EXPECT_FALSE(Hash128::from_hex("12"));
  EXPECT_FALSE(Hash128::from_hex(std::string(32, 'G')));
}

TEST(Hash, PartsDoNotRunIntoEachOther) {
  EXPECT_NE(Hasher().add("ab").add("c").finish(), Hasher().add("a").add("bc").finish());
  EXPECT_EQ(Hasher().add_raw("abc", 3).finish(), hash_bytes("abc"));
  Hasher one;
  one.add("x");
  EXPECT_EQ(one.finish(), one.finish());
}

TEST(BuildId, IsThereAndHex) {
  ASSERT_EQ(build_id().size(), 40u);
  EXPECT_EQ(build_id().find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace tilewright
