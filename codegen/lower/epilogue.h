// Epilogues: a contraction's kernel computes, on its accumulated tile, the elementwise group that reads it.
#pragma once

#include "codegen/lower/merged_domain.h"
#include "codegen/lower/tile_lowering.h"

namespace tilewright {

// The accumulated tile of a contraction, before anything is stored.
struct Product {
  NodeId node;
  std::vector<Axis> axes;         // of the result, one a run of the domain
  ValueId tile;                   // in the result's dtype, one axis each
  std::vector<BufferId> buffers;  // of the params that the kernel has
};

// The group's nodes on the product, then its stores; launches the kernel.
Status emit_epilogue(ProgramBuilder& builder, tile::KernelBuilder& kernel, const MergedDomain& domain,
                     const Group& group, Product product);

Status lower_contraction_with_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group);
Status lower_convolution_with_group(ProgramBuilder& builder, const Grouping& grouping, const Group& group);

}  // namespace tilewright
