// Reference kernels of collectives for a group of one rank; more ranks need a communication engine.
#include "ir/reference/strided.h"

namespace tilewright {

using namespace reference;

namespace {

Status check_one_rank(const KernelCall& call) {
  const Ints& group = call.attributes.get_ints("group");
  if (group.empty() || group == Ints{0}) return Status::ok();
  return Status::unimplemented(cat(op_name(call.op), ": a group of ranks [", join(group, ","),
                                   "] needs a communication engine; only the group of one rank runs"));
}

Status keep(KernelCall& call) {
  TW_RETURN_IF_ERROR(check_one_rank(call));
  copy_elements(call.out(), call.in(0));
  return Status::ok();
}

}  // namespace

// With one rank every reduction, also the average, is the operand itself.
Status reference_all_reduce(KernelCall& call) { return keep(call); }
Status reference_reduce_scatter(KernelCall& call) { return keep(call); }
Status reference_all_gather(KernelCall& call) { return keep(call); }
Status reference_all_to_all(KernelCall& call) { return keep(call); }
Status reference_collective_broadcast(KernelCall& call) {
  int64_t root = call.attributes.get_int("root");
  if (root != 0)
    return Status::invalid(cat("collective_broadcast: root ", root, " is not a rank of a group of one"));
  return keep(call);
}

Status reference_collective_permute(KernelCall& call) {
  TW_RETURN_IF_ERROR(check_one_rank(call));
  const Ints& pairs = call.attributes.get_ints("pairs");
  for (int64_t rank : pairs) {
    if (rank != 0) {
      return Status::unimplemented(cat("collective_permute: rank ", rank,
                                       " needs a communication engine; only the group of one rank runs"));
    }
  }
  // A rank that no pair names as target receives zeros.
  if (pairs.empty())
    fill_zero(call.out());
  else
    copy_elements(call.out(), call.in(0));
  return Status::ok();
}

Status reference_rank_id(KernelCall& call) {
  TW_RETURN_IF_ERROR(check_one_rank(call));
  *elements_of<int64_t>(call.out()) = 0;
  return Status::ok();
}

}  // namespace tilewright
