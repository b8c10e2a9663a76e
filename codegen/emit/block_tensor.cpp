// Products on tensor cores.
#include "codegen/emit/block_emitter.h"

namespace tilewright {

bool BlockEmitter::emit_tensor_dot(const tile::Instruction&) { return false; }

bool BlockEmitter::emit_tensor_loop(const tile::Instruction&) { return false; }

}  // namespace tilewright
