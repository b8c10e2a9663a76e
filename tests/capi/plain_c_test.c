/* The C API from C11: a small network built, compiled and run without any C++. */
#include "tests/capi/plain_c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tilewright/api.h"
#include "tilewright/tilewright.h"

_Static_assert(sizeof(tw_value) == 8 && sizeof(tw_dim) == 8, "fixed-width handles");
_Static_assert(offsetof(tw_node, struct_size) == 0 && offsetof(tw_attribute, next) == 8, "struct_size, then the chain");

/* Keeps the first failure. */
static int failed(tw_status* status, char* message, int size) {
  if (!status) return 0;
  if (!message[0]) snprintf(message, (size_t)size, "%s", tw_status_text(status));
  tw_status_release(status);
  return 1;
}

static tw_value append(tw_graph* graph, int32_t op, const tw_value* operands, int64_t count, const tw_attribute* attributes,
                       int64_t attribute_count, char* message, int size) {
  tw_node node;
  tw_value result = TW_NO_VALUE;
  memset(&node, 0, sizeof node);
  node.struct_size = sizeof node;
  node.op = op;
  node.operands = operands;
  node.operand_count = count;
  node.attributes = attributes;
  node.attribute_count = attribute_count;
  node.tag = "plain_c_test.c";
  failed(tw_graph_append(graph, &node, &result, 1, NULL), message, size);
  return result;
}

static void build(tw_graph* graph, char* message, int size) {
  tw_dim n, x_dims[2], w_dims[2] = {4, 3}, y_dims[2];
  tw_value operands[2], x, w, product, zero;
  const int64_t one = 1, null_axis = 0;
  tw_attribute contract[2];
  failed(tw_graph_symbol(graph, "N", 1, 100, 8, &n), message, size);
  x_dims[0] = n;
  x_dims[1] = 4;
  y_dims[0] = n;
  y_dims[1] = 3;
  failed(tw_graph_input(graph, "x", TW_DTYPE_F32, x_dims, 2, &x), message, size);
  failed(tw_graph_input(graph, "w", TW_DTYPE_F32, w_dims, 2, &w), message, size);
  contract[0] = tw_ints("lhs_contract", &one, 1);
  contract[1] = tw_ints("rhs_contract", &null_axis, 1);
  operands[0] = x;
  operands[1] = w;
  product = append(graph, TW_OP_DOT_GENERAL, operands, 2, contract, 2, message, size);
  failed(tw_graph_splat(graph, TW_DTYPE_F32, y_dims, 2, 0.0, &zero), message, size);
  operands[0] = product;
  operands[1] = zero;
  failed(tw_graph_output(graph, append(graph, TW_OP_MAXIMUM, operands, 2, NULL, 0, message, size), "y"), message, size);
}

static DLTensor tensor_of(float* data, int64_t* shape, int32_t rank) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = rank;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

int run_plain_c(char* message, int size) {
  tw_session* session = NULL;
  tw_graph* graph = NULL;
  tw_executable* executable = NULL;
  DLManagedTensorVersioned* y = NULL;
  float x[8] = {1, 2, 3, 4, -1, -2, -3, -4}, w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1};
  int64_t x_shape[2] = {2, 4}, w_shape[2] = {4, 3};
  const DLTensor x_tensor = tensor_of(x, x_shape, 2), w_tensor = tensor_of(w, w_shape, 2);
  const DLTensor* inputs[2];
  const float expected[6] = {5, 6, 7, 0, 0, 0};
  int wrong = 0, at;
  message[0] = 0;
  inputs[0] = &x_tensor;
  inputs[1] = &w_tensor;
  failed(tw_session_create(NULL, NULL, &session), message, size);
  failed(tw_graph_create("plain", &graph), message, size);
  if (!message[0]) build(graph, message, size);
  if (!message[0]) failed(tw_compile(session, graph, NULL, &executable), message, size);
  if (!message[0]) failed(tw_run(executable, inputs, 2, NULL, &y, 1, NULL), message, size);
  for (at = 0; y && at < 6; ++at) wrong += fabsf(((const float*)y->dl_tensor.data)[at] - expected[at]) > 0;
  if (!message[0] && (!y || wrong)) snprintf(message, (size_t)size, "%d wrong elements", wrong);
  tw_tensor_release(y);
  tw_executable_release(executable);
  tw_graph_release(graph);
  tw_session_release(session);
  return message[0] != 0;
}
