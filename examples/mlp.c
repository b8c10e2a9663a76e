/* mlp: trains a small network on a function of two variables, in plain C: graph text in, gradients by the
 * library. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tilewright/tilewright.h"

enum { ROWS = 256, HIDDEN = 32, STEPS = 400, INPUTS = 6 };

static void check(tw_status* status) {
  if (!status) return;
  fprintf(stderr, "mlp: %s\n", tw_status_text(status));
  tw_status_release(status);
  exit(1);
}

/* The loss as text; the library differentiates it. */
static const char* const loss_text =
    "graph @mlp_loss(%x: f32[256,2], %y: f32[256,1], %w1: f32[2,32], %b1: f32[32], %w2: f32[32,1], %b2: "
    "f32[1])\n"
    "    -> (loss: f32[]) {\n"
    "  %h0 = dot_general %x, %w1 {lhs_contract=[1], rhs_contract=[0]} : f32[256,32]\n"
    "  %h1 = broadcast_in_dim %b1 {shape=[256,32], dims=[1]} : f32[256,32]\n"
    "  %h2 = add %h0, %h1 : f32[256,32]\n"
    "  %h = tanh %h2 : f32[256,32]\n"
    "  %p0 = dot_general %h, %w2 {lhs_contract=[1], rhs_contract=[0]} : f32[256,1]\n"
    "  %p1 = broadcast_in_dim %b2 {shape=[256,1], dims=[1]} : f32[256,1]\n"
    "  %p = add %p0, %p1 : f32[256,1]\n"
    "  %loss = mse_loss %p, %y : f32[]\n"
    "  return %loss\n"
    "}\n";

typedef struct {
  DLTensor view;
  int64_t shape[2];
  float* data;
} tensor;

static tensor make_tensor(int64_t rows, int64_t columns, float spread) {
  tensor t;
  int64_t i, count = rows * (columns ? columns : 1);
  memset(&t, 0, sizeof t);
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.data = (float*)malloc((size_t)count * sizeof(float));
  for (i = 0; i < count; ++i) t.data[i] = spread * (2.0f * (float)rand() / (float)RAND_MAX - 1.0f);
  t.view.data = t.data;
  t.view.device.device_type = kDLCPU;
  t.view.ndim = columns ? 2 : 1;
  check(tw_dtype_to_dlpack(TW_DTYPE_F32, &t.view.dtype));
  return t;
}

int main(void) {
  tw_session* session;
  tw_graph *loss_graph, *joint;
  tw_executable* step;
  tw_gradient_options options;
  const int64_t wanted[] = {2, 3, 4, 5};
  tensor t[INPUTS];
  const DLTensor* inputs[INPUTS];
  float first = 0, last = 0;
  int i, s;

  t[0] = make_tensor(ROWS, 2, 1.5f);
  t[1] = make_tensor(ROWS, 1, 0);
  t[2] = make_tensor(2, HIDDEN, 0.8f);
  t[3] = make_tensor(HIDDEN, 0, 0);
  t[4] = make_tensor(HIDDEN, 1, 0.3f);
  t[5] = make_tensor(1, 0, 0);
  for (i = 0; i < INPUTS; ++i) {
    t[i].view.shape = t[i].shape;
    inputs[i] = &t[i].view;
  }
  for (i = 0; i < ROWS; ++i) t[1].data[i] = sinf(2 * t[0].data[2 * i]) * cosf(t[0].data[2 * i + 1]);

  check(tw_session_create(NULL, NULL, &session));
  check(tw_graph_parse(loss_text, -1, &loss_graph));
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.inputs = wanted;
  options.input_count = 4;
  options.implicit_one = 1;
  check(tw_graph_gradient_joint(loss_graph, &options, &joint));
  check(tw_compile(session, joint, NULL, &step));

  for (s = 0; s < STEPS; ++s) {
    DLManagedTensorVersioned* outputs[5];
    check(tw_run(step, inputs, INPUTS, NULL, outputs, 5, NULL));
    last = *(float*)outputs[0]->dl_tensor.data;
    if (s == 0) first = last;
    for (i = 0; i < 4; ++i) {
      const float* gradient = (const float*)outputs[1 + i]->dl_tensor.data;
      int64_t k, count = t[2 + i].shape[0] * (t[2 + i].shape[1] ? t[2 + i].shape[1] : 1);
      for (k = 0; k < count; ++k) t[2 + i].data[k] -= 0.2f * gradient[k];
    }
    for (i = 0; i < 5; ++i) tw_tensor_release(outputs[i]);
  }
  printf("mlp: loss %.4f -> %.4f in %d steps\n", first, last, STEPS);

  tw_executable_release(step);
  tw_graph_release(joint);
  tw_graph_release(loss_graph);
  tw_session_release(session);
  for (i = 0; i < INPUTS; ++i) free(t[i].data);
  return last < 0.25f * first ? 0 : 1;
}
