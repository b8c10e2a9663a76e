/* custom_call: a graph that calls cblas_sgemm of a system OpenBLAS, found at run time, between compiled
 * kernels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tilewright/tilewright.h"

enum { M = 40, N = 30, K = 50 };

static void check(tw_status* status) {
  if (!status) return;
  fprintf(stderr, "custom_call: %s\n", tw_status_text(status));
  tw_status_release(status);
  exit(1);
}

static tw_custom_argument argument(int32_t kind, int32_t ctype, int32_t tensor, int32_t index) {
  tw_custom_argument a;
  memset(&a, 0, sizeof a);
  a.struct_size = sizeof a;
  a.kind = kind;
  a.ctype = ctype;
  a.tensor = tensor;
  a.index = index;
  return a;
}
static tw_custom_argument size_of_dim(int32_t tensor, int32_t dim) {
  return argument(TW_ARGUMENT_SIZE, TW_CTYPE_I32, tensor, dim);
}
static tw_custom_argument constant(int64_t value) {
  tw_custom_argument a = argument(TW_ARGUMENT_INT, TW_CTYPE_I32, 0, 0);
  a.i = value;
  return a;
}
static tw_custom_argument number(double value) {
  tw_custom_argument a = argument(TW_ARGUMENT_FLOAT, TW_CTYPE_F32, 0, 0);
  a.f = value;
  return a;
}
static tw_custom_argument data_of(int32_t tensor) {
  return argument(TW_ARGUMENT_DATA, TW_CTYPE_DEFAULT, tensor, 0);
}

/* relu(a * b) with the product done by OpenBLAS. */
static const char* const text =
    "graph @relu_of_product(%a: f32[40,50], %b: f32[50,30]) -> (f32[40,30]) {\n"
    "  %c = custom_call %a, %b {target=\"sgemm\", result_types=[f32[40,30]]} : f32[40,30]\n"
    "  %y = relu %c : f32[40,30]\n"
    "  return %y\n"
    "}\n";

static DLTensor view(float* data, int64_t* shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = 2;
  t.shape = shape;
  check(tw_dtype_to_dlpack(TW_DTYPE_F32, &t.dtype));
  return t;
}

int main(void) {
  /* void cblas_sgemm(order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); tensors 0, 1 are
   * a, b; 2 is c */
  const tw_custom_argument arguments[] = {
      constant(101),     constant(111), constant(111), size_of_dim(2, 0), size_of_dim(2, 1),
      size_of_dim(0, 1), number(1),     data_of(0),    size_of_dim(0, 1), data_of(1),
      size_of_dim(1, 1), number(0),     data_of(2),    size_of_dim(2, 1)};
  static float a[M * K], b[K * N], y[M * N];
  int64_t a_shape[] = {M, K}, b_shape[] = {K, N}, y_shape[] = {M, N};
  DLTensor av = view(a, a_shape), bv = view(b, b_shape), yv = view(y, y_shape);
  const DLTensor *inputs[] = {&av, &bv}, *outputs[] = {&yv};
  tw_custom_call call;
  tw_session* session;
  tw_graph* graph;
  tw_executable* executable;
  tw_status* registered;
  double worst = 0;
  int i, j, k;

  for (i = 0; i < M * K; ++i) a[i] = sinf((float)i);
  for (i = 0; i < K * N; ++i) b[i] = cosf((float)i);

  check(tw_session_create(NULL, NULL, &session));
  memset(&call, 0, sizeof call);
  call.struct_size = sizeof call;
  call.name = "sgemm";
  call.library = "libopenblas.so.0";
  call.symbol = "cblas_sgemm";
  call.arguments = arguments;
  call.argument_count = sizeof arguments / sizeof *arguments;
  call.operand_count = 2;
  call.result_count = 1;
  registered = tw_session_register_custom_call(session, &call);
  if (registered) {
    printf("custom_call: no OpenBLAS here (%s)\n", tw_status_text(registered));
    tw_status_release(registered);
    tw_session_release(session);
    return 77; /* skipped */
  }
  check(tw_graph_parse(text, -1, &graph));
  check(tw_compile(session, graph, NULL, &executable));
  check(tw_run(executable, inputs, 2, outputs, NULL, 1, NULL));

  for (i = 0; i < M; ++i) {
    for (j = 0; j < N; ++j) {
      double sum = 0;
      for (k = 0; k < K; ++k) sum += (double)a[i * K + k] * b[k * N + j];
      worst = fmax(worst, fabs(y[i * N + j] - fmax(sum, 0)));
    }
  }
  printf("custom_call: relu(a b) through cblas_sgemm, largest error %.2e\n", worst);
  tw_executable_release(executable);
  tw_graph_release(graph);
  tw_session_release(session);
  return worst < 1e-4 ? 0 : 1;
}
