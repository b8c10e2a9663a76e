// The identity of the code that is running: what compiled it cannot be told apart from what runs it.
#pragma once

#include <string>

namespace tilewright {

// The GNU build id of the shared object or program that holds this library, in hex; empty when it has none,
// and then nothing may be cached. Taken from the loaded object, so that a library replaced on disk does not
// confuse the one in memory.
const std::string& build_id();

// "0.1.0".
const char* library_version();

}  // namespace tilewright
