/* Tilewright: a traced graph goes in, compiled kernels for this machine come out.
 *
 * The whole C API.  C11 and C++ clean; needs only <stddef.h> and <stdint.h>.
 *
 * Rules that hold for every function unless it says otherwise
 * -----------------------------------------------------------
 * Errors      A function that can fail returns `tw_status*`: NULL is success, anything else is owned by the caller, who
 *             releases it with tw_status_release.  Out parameters are written only on success, except that handles are
 *             set to NULL first.  Bad arguments, NULL handles included, give TW_INVALID_ARGUMENT; nothing aborts, and no
 *             C++ exception leaves the library.
 * Ownership   `create`, `parse`, `print`, `retain` and every out parameter of handle type give the caller one reference,
 *             which `release` gives back; releasing NULL does nothing.  `const char*` results are borrowed from the handle
 *             that they were read from.  Arguments are borrowed for the call, unless the text says that they are taken.
 * Threads     Handles may be used from any thread.  tw_session, tw_executable, tw_constant, tw_status and tw_text are
 *             immutable or locked inside: any number of threads at once.  tw_graph and tw_options must not be changed by
 *             one thread while another uses them; once a graph is no longer changed any number of threads may read it.
 * Reentrancy  Nothing holds a lock while it calls back into the host.
 * Fork        The library never forks.  A forked child may go on using every handle it inherited (worker threads are
 *             started again when first needed); a compile that ran in the parent is lost in the child.
 * Host state  Rounding mode, flush-to-zero, errno and signal masks of the calling thread are as before after every call.
 * Structs     Every struct begins with `struct_size` (set it to sizeof) and a chain `next` of extensions, and is valid when
 *             zeroed otherwise: zero always means the default.  The library reads no more than struct_size bytes, so that
 *             programs keep working with a newer library.  In arrays of structs the elements are struct_size of the first
 *             element apart.
 * Text        Strings going in are NUL-terminated unless a size is given with them. */
#ifndef TILEWRIGHT_H_
#define TILEWRIGHT_H_

#include <stddef.h>
#include <stdint.h>

#include "tilewright/dlpack.h"
#include "tilewright/ops.h" /* TW_OP_*, TW_DTYPE_*: generated from the op table */

#if defined(_WIN32)
#define TW_API
#define TW_NODISCARD
#else
#define TW_API __attribute__((visibility("default")))
#define TW_NODISCARD __attribute__((warn_unused_result))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The major version changes when something is taken away or changes meaning, the minor when something is added. */
#define TW_API_MAJOR 1
#define TW_API_MINOR 0

/* ---- handles ------------------------------------------------------------------------------------------------------------- */

typedef struct tw_status tw_status;           /* why a call failed */
typedef struct tw_text tw_text;               /* text owned by the caller */
typedef struct tw_options tw_options;         /* values of all options, before a session is made from them */
typedef struct tw_session tw_session;         /* one configured instance: target, options, cache, threads, memory */
typedef struct tw_graph tw_graph;             /* a tensor program, also used for regions */
typedef struct tw_constant tw_constant;       /* immutable tensor data shared by graphs and executables */
typedef struct tw_executable tw_executable;   /* a graph ready to run */
typedef struct tw_compile_job tw_compile_job; /* a compile that runs beside the caller */

/* A value of one graph; valid for that graph only. */
typedef int64_t tw_value;
#define TW_NO_VALUE ((tw_value)-1) /* an absent optional operand */

/* A size: a plain integer is itself; tw_graph_symbol and tw_graph_dim_* give symbolic ones, valid for that graph and its
 * clones.  Symbolic handles lie near INT64_MIN, where no size or offset can be. */
typedef int64_t tw_dim;

/* Extensions of structs.  `kind` says which struct this is. */
typedef struct tw_extension {
  int64_t struct_size;
  const struct tw_extension* next;
  int32_t kind; /* TW_EXTENSION_* */
  int32_t reserved;
} tw_extension;

/* ---- status -------------------------------------------------------------------------------------------------------------- */

/* The numbering of absl and PJRT. */
enum {
  TW_OK = 0,
  TW_CANCELLED = 1,
  TW_UNKNOWN = 2,
  TW_INVALID_ARGUMENT = 3,
  TW_DEADLINE_EXCEEDED = 4,
  TW_NOT_FOUND = 5,
  TW_ALREADY_EXISTS = 6,
  TW_PERMISSION_DENIED = 7,
  TW_RESOURCE_EXHAUSTED = 8,
  TW_FAILED_PRECONDITION = 9,
  TW_ABORTED = 10,
  TW_OUT_OF_RANGE = 11,
  TW_UNIMPLEMENTED = 12,
  TW_INTERNAL = 13,
  TW_UNAVAILABLE = 14,
  TW_DATA_LOSS = 15,
  TW_UNAUTHENTICATED = 16
};

/* All accept NULL, which is OK with empty texts.  Texts live as long as the status. */
TW_API int32_t tw_status_code(const tw_status* status);
TW_API const char* tw_status_message(const tw_status* status); /* what was found, where, what was expected */
TW_API const char* tw_status_op(const tw_status* status);      /* the op that it belongs to, or "" */
TW_API const char* tw_status_text(const tw_status* status);    /* code, message, op and all causes on one line, several findings parted by "; " */
/* What led to it, or NULL; borrowed from `status`. */
TW_API const tw_status* tw_status_cause(const tw_status* status);
/* A status of the host's own, for callbacks; the caller owns it.  Never returns NULL for a code other than TW_OK. */
TW_API tw_status* tw_status_create(int32_t code, const char* message);
TW_API void tw_status_release(tw_status* status);
/* "INVALID_ARGUMENT"; "UNKNOWN" for a number that is no code.  Static. */
TW_API const char* tw_status_code_name(int32_t code);

/* ---- text ---------------------------------------------------------------------------------------------------------------- */

/* NUL-terminated, size without the NUL.  NULL gives "" and 0. */
TW_API const char* tw_text_data(const tw_text* text);
TW_API int64_t tw_text_size(const tw_text* text);
TW_API void tw_text_release(tw_text* text);

/* ---- version, build, targets --------------------------------------------------------------------------------------------- */

/* "0.1.0".  Static. */
TW_API const char* tw_version(void);
/* The version of this header that the library was built with.  Either may be NULL. */
TW_API void tw_api_version(int32_t* major, int32_t* minor);
/* Identity of the library's code in hex, part of every cache key; "" when it has none (then nothing is cached).  Static. */
TW_API const char* tw_build_id(void);
/* JSON array of the targets that this build knows: spelling, family, summary, host_reason (empty: runs here). */
TW_API TW_NODISCARD tw_status* tw_targets(tw_text** json);
/* JSON object for one spelling ("native", "x86-64-v3", ..): name, description, isa, cache_identity, limits.  Fails as
 * tw_session_create does for a target that cannot be served. */
TW_API TW_NODISCARD tw_status* tw_target_describe(const char* spelling, tw_text** json);

/* ---- the op table -------------------------------------------------------------------------------------------------------- */

/* Number of rows; indices run over all rows in table order. */
TW_API int64_t tw_op_count(void);
/* The permanent id (TW_OP_*) of a row, or -1. */
TW_API int32_t tw_op_id(int64_t index);
/* "dot_general", or NULL for an unknown id.  Static. */
TW_API const char* tw_op_name(int32_t op);
/* TW_NOT_FOUND for an unknown name. */
TW_API TW_NODISCARD tw_status* tw_op_find(const char* name, int32_t* op);
/* JSON object with every column of the row. */
TW_API TW_NODISCARD tw_status* tw_op_describe(int32_t op, tw_text** json);
/* "f32", or NULL for an unknown number.  Static. */
TW_API const char* tw_dtype_name(int32_t dtype);
/* Bytes of one element, or 0 for an unknown number. */
TW_API int64_t tw_dtype_size(int32_t dtype);
TW_API TW_NODISCARD tw_status* tw_dtype_find(const char* name, int32_t* dtype);
/* Between TW_DTYPE_* and DLPack's types.  Types without a counterpart are TW_INVALID_ARGUMENT. */
TW_API TW_NODISCARD tw_status* tw_dtype_from_dlpack(DLDataType type, int32_t* dtype);
TW_API TW_NODISCARD tw_status* tw_dtype_to_dlpack(int32_t dtype, DLDataType* type);

/* ---- options ------------------------------------------------------------------------------------------------------------- */

/* Where a value came from. */
enum { TW_ORIGIN_DEFAULT = 0, TW_ORIGIN_ENVIRONMENT = 1, TW_ORIGIN_API = 2 };

/* The options that exist: every environment variable is one.  Pointers are static. */
typedef struct tw_option_info {
  int64_t struct_size;
  const tw_extension* next;
  const char* name;          /* "cache_dir" */
  const char* variable;      /* "TILEWRIGHT_CACHE_DIR" */
  const char* kind;          /* "choice", "integer", .. */
  const char* default_value; /* as text */
  const char* values;        /* what is accepted, may be "" */
  const char* help;
  int32_t in_cache_key; /* 1: changes generated code */
  int32_t is_effective; /* 0: accepted, without effect yet */
} tw_option_info;

TW_API int64_t tw_option_count(void);
TW_API TW_NODISCARD tw_status* tw_option_describe(int64_t index, tw_option_info* info);

/* Defaults, overridden by the TILEWRIGHT_* environment variables.  A value that does not parse is an error that names the
 * variable; an unknown variable is logged as a warning. */
TW_API TW_NODISCARD tw_status* tw_options_create(tw_options** options);
TW_API void tw_options_release(tw_options* options);
/* By option name or variable name; an empty value sets the default back. */
TW_API TW_NODISCARD tw_status* tw_options_set(tw_options* options, const char* name, const char* value);
/* The effective value (borrowed until the next set) and its origin.  `origin` may be NULL. */
TW_API TW_NODISCARD tw_status* tw_options_get(const tw_options* options, const char* name, const char** value,
                                              int32_t* origin);

/* ---- log ----------------------------------------------------------------------------------------------------------------- */

enum { TW_LOG_TRACE = 0, TW_LOG_DEBUG = 1, TW_LOG_INFO = 2, TW_LOG_WARN = 3, TW_LOG_ERROR = 4 };

/* Called from any thread, from several at once.  `message` has `size` bytes and no NUL. */
typedef void (*tw_log_function)(void* context, int32_t level, const char* component, const char* message, int64_t size);
/* For the whole process.  NULL writes lines to standard error or the log file again. */
TW_API void tw_set_log(tw_log_function function, void* context);

/* ---- session ------------------------------------------------------------------------------------------------------------- */

/* What the host supplies instead of the library's own; a member left NULL keeps the library's. */
enum { TW_EXTENSION_HOST_SERVICES = 1 };
typedef struct tw_host_services {
  tw_extension header; /* kind TW_EXTENSION_HOST_SERVICES */
  void* context;       /* first argument of all of them */
  /* Memory for tensors: at least `alignment` (a power of two) aligned; NULL when there is none.  Any thread. */
  void* (*allocate)(void* context, int64_t bytes, int64_t alignment);
  void (*deallocate)(void* context, void* memory, int64_t bytes);
  /* Calls body(body_context, begin, end, worker) for ranges covering [0, count), at most max_chunk long, with `worker` in
   * [0, thread_count) different for bodies that run at the same time; returns when all are done. */
  void (*parallel_for)(void* context, int64_t count, int64_t max_chunk,
                       void (*body)(void* body_context, int64_t begin, int64_t end, int32_t worker), void* body_context);
  int32_t thread_count; /* needed with parallel_for */
  int32_t reserved;
  /* Polled while compiling and between the launches of a run: nonzero makes the call end with TW_CANCELLED. */
  int32_t (*should_abort)(void* context);
} tw_host_services;

typedef struct tw_session_info {
  int64_t struct_size;
  const tw_extension* next; /* tw_host_services */
} tw_session_info;

/* `options` NULL: as tw_options_create gives.  `info` may be NULL.  The options are copied.  Cheap: threads start and files
 * are opened when first needed. */
TW_API TW_NODISCARD tw_status* tw_session_create(const tw_options* options, const tw_session_info* info,
                                                 tw_session** session);
TW_API tw_session* tw_session_retain(tw_session* session);
/* Executables and tensors that came from the session stay valid; the session itself goes with the last of them. */
TW_API void tw_session_release(tw_session* session);
/* The effective value of an option in this session; borrowed from it.  `origin` may be NULL. */
TW_API TW_NODISCARD tw_status* tw_session_option(const tw_session* session, const char* name, const char** value,
                                                 int32_t* origin);
/* JSON object: target, compiles, cache hits and misses, fallbacks by reason, runs, bytes fresh and recycled, copies. */
TW_API TW_NODISCARD tw_status* tw_session_report(const tw_session* session, tw_text** json);
/* A dense row-major tensor from the session's caching allocator, contents undefined.  Its deleter may be called from any
 * thread and after the session is released; the memory is used again for later tensors. */
TW_API TW_NODISCARD tw_status* tw_session_allocate(tw_session* session, int32_t dtype, const int64_t* sizes, int32_t rank,
                                                   DLManagedTensorVersioned** tensor);
/* Gives cached memory that nobody uses back to the system. */
TW_API TW_NODISCARD tw_status* tw_session_trim(tw_session* session);

/* Counters of a session's cache since it was made. */
typedef struct tw_cache_stats {
  int64_t struct_size;
  const tw_extension* next;
  int64_t kernel_hits_memory, kernel_hits_disk, kernel_misses;
  int64_t graph_hits_memory, graph_hits_disk, graph_misses;
  int64_t faults; /* torn, foreign or unreadable entries and failed writes: each was treated as a miss */
  int64_t bytes_read, bytes_written;
} tw_cache_stats;
/* Set struct_size before the call. */
TW_API TW_NODISCARD tw_status* tw_session_cache_stats(const tw_session* session, tw_cache_stats* stats);
/* The cache directory in use, or "", and the reason why there is none or it is not written, or "".  Either may be NULL. */
TW_API TW_NODISCARD tw_status* tw_session_cache_directory(tw_session* session, tw_text** directory, tw_text** reason);

/* ---- constants ----------------------------------------------------------------------------------------------------------- */

/* Copies a host tensor. */
TW_API TW_NODISCARD tw_status* tw_constant_create(const DLTensor* tensor, tw_constant** constant);
/* Takes the tensor (its deleter is called when the last user of the constant is gone, or at once if it had to be copied
 * because it is not dense row-major).  Nobody may write to it from now on.  On failure the tensor stays the caller's. */
TW_API TW_NODISCARD tw_status* tw_constant_take(DLManagedTensorVersioned* tensor, tw_constant** constant);
TW_API tw_constant* tw_constant_retain(tw_constant* constant);
TW_API void tw_constant_release(tw_constant* constant);

/* ---- graphs -------------------------------------------------------------------------------------------------------------- */

/* An empty graph; `name` may be NULL. */
TW_API TW_NODISCARD tw_status* tw_graph_create(const char* name, tw_graph** graph);
TW_API tw_graph* tw_graph_retain(tw_graph* graph);
TW_API void tw_graph_release(tw_graph* graph);
/* A graph of its own with the same content. */
TW_API TW_NODISCARD tw_status* tw_graph_clone(const tw_graph* graph, tw_graph** clone);

/* Declares a symbol with its range (inclusive) and the value that tile sizes are chosen for; hint < 0: none. */
TW_API TW_NODISCARD tw_status* tw_graph_symbol(tw_graph* graph, const char* name, int64_t min, int64_t max, int64_t hint,
                                               tw_dim* dim);
enum {
  TW_DIM_ADD = 0,
  TW_DIM_SUBTRACT = 1,
  TW_DIM_MULTIPLY = 2,
  TW_DIM_FLOOR_DIVIDE = 3,
  TW_DIM_CEIL_DIVIDE = 4,
  TW_DIM_MODULO = 5,
  TW_DIM_MIN = 6,
  TW_DIM_MAX = 7
};
/* An expression of two dims. */
TW_API TW_NODISCARD tw_status* tw_graph_dim(tw_graph* graph, int32_t operation, tw_dim a, tw_dim b, tw_dim* dim);
/* Reads an expression, such as "2*N + floordiv(H, 4)". */
TW_API TW_NODISCARD tw_status* tw_graph_dim_parse(tw_graph* graph, const char* text, tw_dim* dim);
TW_API TW_NODISCARD tw_status* tw_graph_dim_print(const tw_graph* graph, tw_dim dim, tw_text** text);
/* The value of a dim under values of its symbols. */
TW_API TW_NODISCARD tw_status* tw_graph_dim_evaluate(const tw_graph* graph, tw_dim dim, const char* const* symbol_names,
                                                     const int64_t* symbol_values, int64_t symbol_count, int64_t* value);

/* Appends an input.  `name` may be NULL. */
TW_API TW_NODISCARD tw_status* tw_graph_input(tw_graph* graph, const char* name, int32_t dtype, const tw_dim* dims,
                                              int32_t rank, tw_value* value);
/* How the tensors of an input lie in memory.  A tensor that does not fit is copied, and counted. */
enum {
  TW_LAYOUT_DENSE = 0,   /* without gaps; `order`: dims from the slowest to the fastest, NULL for row-major */
  TW_LAYOUT_STRIDED = 1, /* exactly `strides` (in elements, one a dim) */
  TW_LAYOUT_ANY = 2      /* whatever strides the tensor has */
};
TW_API TW_NODISCARD tw_status* tw_graph_input_layout(tw_graph* graph, int64_t input, int32_t layout, const int64_t* order,
                                                     const tw_dim* strides);
/* The input is bound once on the executable (tw_executable_bind) and may be packed ahead. */
TW_API TW_NODISCARD tw_status* tw_graph_input_frozen(tw_graph* graph, int64_t input, int32_t frozen);
/* Appends an output; `name` may be NULL, and no two outputs may have the same. */
TW_API TW_NODISCARD tw_status* tw_graph_output(tw_graph* graph, tw_value value, const char* name);
/* Takes all outputs away, with their aliases, so that others can be declared: a training step made from a joint graph
 * returns new parameters instead of gradients.  Values stay. */
TW_API TW_NODISCARD tw_status* tw_graph_clear_outputs(tw_graph* graph);
/* For an integer input that chooses rows, classes or elements: *bound is the least of the sizes that its values must stay
 * below (from 0), as a dim; TW_UNBOUNDED for any other input.  For whoever makes up data. */
#define TW_UNBOUNDED INT64_MAX
TW_API TW_NODISCARD tw_status* tw_graph_input_bound(tw_graph* graph, int64_t input, tw_dim* bound);
/* Permission for output `output` to take the memory of input `input` of the same type: in force in a run that passes the
 * same address for both.  All reads of the old value come first. */
TW_API TW_NODISCARD tw_status* tw_graph_alias(tw_graph* graph, int64_t output, int64_t input);

/* Attribute values. */
enum {
  TW_ATTRIBUTE_BOOL = 0,     /* i */
  TW_ATTRIBUTE_INT = 1,      /* i */
  TW_ATTRIBUTE_FLOAT = 2,    /* f */
  TW_ATTRIBUTE_STRING = 3,   /* data, count bytes (-1: NUL-terminated); words of enum attributes too */
  TW_ATTRIBUTE_DTYPE = 5,    /* i: TW_DTYPE_* */
  TW_ATTRIBUTE_INTS = 6,     /* data: const int64_t*, count */
  TW_ATTRIBUTE_FLOATS = 7,   /* data: const double*, count */
  TW_ATTRIBUTE_DIMS = 8,     /* data: const tw_dim*, count */
  TW_ATTRIBUTE_TYPES = 9,    /* data: const tw_tensor_type*, count */
  TW_ATTRIBUTE_CONSTANT = 10 /* data: tw_constant*, which the graph retains */
};
typedef struct tw_attribute {
  int64_t struct_size;
  const tw_extension* next;
  const char* name;
  int32_t kind;
  int32_t reserved;
  int64_t i;
  double f;
  const void* data;
  int64_t count;
} tw_attribute;

typedef struct tw_tensor_type {
  int64_t struct_size;
  const tw_extension* next;
  int32_t dtype;
  int32_t rank;
  const tw_dim* dims;
} tw_tensor_type;

/* One node of any op. */
typedef struct tw_node {
  int64_t struct_size;
  const tw_extension* next;
  int32_t op; /* TW_OP_* */
  int32_t reserved;
  const tw_value* operands; /* TW_NO_VALUE for an absent optional operand */
  int64_t operand_count;
  const tw_attribute* attributes; /* those that are not the default */
  int64_t attribute_count;
  tw_graph* const* regions; /* copied; they capture nothing */
  int64_t region_count;
  const char* tag; /* where the frontend made it, for messages and reports; may be NULL */
} tw_node;
/* Checks the node, infers its result types and appends it.  Writes at most `result_capacity` results and their number to
 * `result_count`; either may be NULL.  On failure the graph is as before. */
TW_API TW_NODISCARD tw_status* tw_graph_append(tw_graph* graph, const tw_node* node, tw_value* results,
                                               int64_t result_capacity, int64_t* result_count);
/* A constant node. */
TW_API TW_NODISCARD tw_status* tw_graph_constant(tw_graph* graph, tw_constant* constant, tw_value* value);
/* A constant of one value everywhere, rounded to the dtype. */
TW_API TW_NODISCARD tw_status* tw_graph_splat(tw_graph* graph, int32_t dtype, const tw_dim* dims, int32_t rank, double number,
                                              tw_value* value);
/* The same for integers and bool, exact up to 64 bits. */
TW_API TW_NODISCARD tw_status* tw_graph_splat_integer(tw_graph* graph, int32_t dtype, const tw_dim* dims, int32_t rank,
                                                      int64_t number, tw_value* value);

/* Dtype, rank and up to `capacity` dims of a value.  Any out parameter may be NULL. */
TW_API TW_NODISCARD tw_status* tw_graph_value_type(const tw_graph* graph, tw_value value, int32_t* dtype, int32_t* rank,
                                                   tw_dim* dims, int32_t capacity);
/* Name for messages: "%x", "%7". */
TW_API TW_NODISCARD tw_status* tw_graph_value_name(const tw_graph* graph, tw_value value, tw_text** name);

/* NULL for a NULL graph.  Borrowed. */
TW_API const char* tw_graph_name(const tw_graph* graph);
/* 0 for a NULL graph. */
TW_API int64_t tw_graph_input_count(const tw_graph* graph);
TW_API int64_t tw_graph_output_count(const tw_graph* graph);
TW_API int64_t tw_graph_node_count(const tw_graph* graph);
TW_API int64_t tw_graph_symbol_count(const tw_graph* graph);
/* The value of an input or output, and its name (borrowed, may be ""); out parameters may be NULL. */
TW_API TW_NODISCARD tw_status* tw_graph_input_at(const tw_graph* graph, int64_t index, tw_value* value, const char** name);
TW_API TW_NODISCARD tw_status* tw_graph_output_at(const tw_graph* graph, int64_t index, tw_value* value, const char** name,
                                                  int64_t* alias_input);
/* A declared symbol; `hint` is -1 without one. */
TW_API TW_NODISCARD tw_status* tw_graph_symbol_at(const tw_graph* graph, int64_t index, const char** name, int64_t* min,
                                                  int64_t* max, int64_t* hint);
/* Op, results and tag of a node; writes up to `capacity` results.  Out parameters may be NULL. */
TW_API TW_NODISCARD tw_status* tw_graph_node_at(const tw_graph* graph, int64_t index, int32_t* op, tw_value* results,
                                                int64_t capacity, int64_t* result_count, const char** tag);

/* Reads the text form.  `size` < 0: NUL-terminated.  The graph is verified; errors carry line, column and the line. */
TW_API TW_NODISCARD tw_status* tw_graph_parse(const char* text, int64_t size, tw_graph** graph);
/* A text with any number of graphs: writes at most `capacity` of them and their number to `count`. */
TW_API TW_NODISCARD tw_status* tw_graph_parse_all(const char* text, int64_t size, tw_graph** graphs, int64_t capacity,
                                                  int64_t* count);
/* The text form; reading it back gives the same graph. */
TW_API TW_NODISCARD tw_status* tw_graph_print(const tw_graph* graph, tw_text** text);
/* All violations of the rules joined into one status. */
TW_API TW_NODISCARD tw_status* tw_graph_verify(const tw_graph* graph);
/* 128 bits that are equal for graphs that differ only in names of values, tags and order of unused symbols. */
TW_API TW_NODISCARD tw_status* tw_graph_hash(const tw_graph* graph, uint64_t hash[2]);
/* The graph with every composite op expanded into primitives. */
TW_API TW_NODISCARD tw_status* tw_graph_expand(const tw_graph* graph, tw_graph** expanded);

/* ---- gradients ----------------------------------------------------------------------------------------------------------- */

typedef struct tw_gradient_options {
  int64_t struct_size;
  const tw_extension* next;
  const int64_t* outputs; /* indices of outputs that get a cotangent; none: all outputs of float type */
  int64_t output_count;
  const int64_t* inputs; /* indices of inputs whose gradient is wanted; none: all inputs of float type */
  int64_t input_count;
  int32_t recompute;    /* 1: the backward recomputes cheap values instead of saving them */
  int32_t implicit_one; /* joint only: the output that is differentiated, one and 0-d (list it in `outputs` when there are more), has
                            cotangent 1 and no input for it; else TW_INVALID_ARGUMENT */
} tw_gradient_options;
/* One graph: inputs are the original ones, then a cotangent an output; outputs are the original ones, then a gradient an
 * input.  `options` may be NULL. */
TW_API TW_NODISCARD tw_status* tw_graph_gradient_joint(const tw_graph* graph, const tw_gradient_options* options,
                                                       tw_graph** joint);
/* Two graphs.  Forward: the original outputs, then `saved.k`.  Backward: inputs are the saved values, then the cotangents;
 * outputs are the gradients. */
TW_API TW_NODISCARD tw_status* tw_graph_gradient_pair(const tw_graph* graph, const tw_gradient_options* options,
                                                      tw_graph** forward, tw_graph** backward);

/* ---- compile ------------------------------------------------------------------------------------------------------------- */

typedef struct tw_compile_options {
  int64_t struct_size;
  const tw_extension* next;
  double timeout_seconds; /* 0: the session's; after it what is not compiled falls back */
  /* Options of the session overridden for this executable; those that belong to the session as a whole (cache_dir, threads,
   * target, log..) are refused. */
  const char* const* option_names;
  const char* const* option_values;
  int64_t option_count;
  /* Stages kept as text for tw_executable_dump: "kernels", "tile", "llvm", "asm", "after:<pass>". */
  const char* const* stages;
  int64_t stage_count;
} tw_compile_options;
/* Makes the graph ready to run; blocks.  The graph may be changed or released afterwards.  What cannot be compiled runs on
 * reference kernels and is listed in the report with its reason, unless the option `fallback` is `error`.  `options` may
 * be NULL. */
TW_API TW_NODISCARD tw_status* tw_compile(tw_session* session, const tw_graph* graph, const tw_compile_options* options,
                                          tw_executable** executable);
/* The same on a thread of the library.  The job must be released. */
TW_API TW_NODISCARD tw_status* tw_compile_start(tw_session* session, const tw_graph* graph, const tw_compile_options* options,
                                                tw_compile_job** job);
/* Waits at most `seconds` (< 0: without limit; 0: asks only).  TW_DEADLINE_EXCEEDED when it still runs; otherwise the
 * outcome, the same for every later call; each success gives a new reference. */
TW_API TW_NODISCARD tw_status* tw_compile_wait(tw_compile_job* job, double seconds, tw_executable** executable);
/* Asks the job to end soon with TW_CANCELLED; returns at once. */
TW_API void tw_compile_cancel(tw_compile_job* job);
/* Does not wait: a running job goes on unseen until it ends by itself. */
TW_API void tw_compile_job_release(tw_compile_job* job);

/* ---- executables --------------------------------------------------------------------------------------------------------- */

TW_API tw_executable* tw_executable_retain(tw_executable* executable);
TW_API void tw_executable_release(tw_executable* executable);
/* The graph that it was made from, to ask for inputs, outputs and symbols; one reference for the caller, not to be changed. */
TW_API TW_NODISCARD tw_status* tw_executable_graph(const tw_executable* executable, tw_graph** graph);
/* JSON object: mode, kernels, launches by kind, fallbacks (node, reason code, sentence), cache hits and misses, compile
 * times, runs and their time, bytes fresh and recycled, arena bytes, copies of inputs and outputs. */
TW_API TW_NODISCARD tw_status* tw_executable_report(const tw_executable* executable, tw_text** json);
/* A stage as text: "graph", or one that was asked for in tw_compile_options.stages; TW_NOT_FOUND for any other. */
TW_API TW_NODISCARD tw_status* tw_executable_dump(const tw_executable* executable, const char* stage, tw_text** text);
/* Binds a frozen input.  Takes the tensor as tw_constant_take does; binding again replaces it for later runs. */
TW_API TW_NODISCARD tw_status* tw_executable_bind(tw_executable* executable, int64_t input,
                                                  DLManagedTensorVersioned* tensor);

typedef struct tw_run_options {
  int64_t struct_size;
  const tw_extension* next;
  /* Values of symbols that no input shows. */
  const char* const* symbol_names;
  const int64_t* symbol_values;
  int64_t symbol_count;
  /* Indices of inputs whose memory the run may overwrite.  One that overlaps another argument counts as not donated. */
  const int64_t* donated;
  int64_t donated_count;
  /* Devices only, must be NULL on CPUs: the stream (a CUstream) on which the run is ordered; NULL is the default stream.
   * Tensors of the device must be ready on it; outputs on the device are ready on it. */
  void* stream;
  /* Where outputs lie that are asked for, TW_PLACE_*: by default on the device if an input lies there, else on the host. */
  int32_t asked_place;
  int32_t reserved;
} tw_run_options;
enum { TW_PLACE_WITH_INPUTS = 0, TW_PLACE_HOST = 1, TW_PLACE_DEVICE = 2 };
/* Runs the executable; reentrant.
 *
 * inputs   one a graph input; NULL for a bound frozen one.  Checked: dtype, rank, sizes, symbols, device, data.
 * given    one an output: the caller's tensor, or NULL to ask for it; `given` itself may be NULL (all are asked for).
 *          A given tensor must have the sizes of the output; its bytes may overlap no other argument's, except at the very
 *          address of the input that it may alias.
 * asked    one an output: receives each output that was not given, as a dense row-major tensor from the session's caching
 *          allocator, owned by the caller.  Its deleter may be called from any thread, also after the session is released.
 *          May be NULL when all are given.
 *
 * Tensors lie on the host or, for a session of a device, in its memory (DLPack's device type and index of the target: see
 * tw_target_describe); a run copies where that does not fit, and counts it in the report.
 *
 * Returns when the outputs are written; on a device, when outputs on the host are, and at once if all lie on the device
 * and no kernel can report an error: then the run is ordered on its stream, and what goes wrong on the device is returned by
 * the next call that waits for it (tw_session_synchronize, a run or a copy with tensors on the host).  An error that a kernel meets (an index out of range with oob=error, a failed
 * assert) is returned here; then given tensors hold undefined values and nothing is asked for. */
TW_API TW_NODISCARD tw_status* tw_run(tw_executable* executable, const DLTensor* const* inputs, int64_t input_count,
                                      const DLTensor* const* given, DLManagedTensorVersioned** asked, int64_t output_count,
                                      const tw_run_options* options);
/* The sizes that an output would have for these inputs (only their shapes are read); writes up to `capacity`. */
TW_API TW_NODISCARD tw_status* tw_executable_output_sizes(const tw_executable* executable, const DLTensor* const* inputs,
                                                          int64_t input_count, const tw_run_options* options,
                                                          int64_t output, int64_t* sizes, int32_t capacity, int32_t* rank);
/* Compares the outputs of two runs on the same inputs, `expected` those of a run in eager mode, within bounds that follow
 * from what the ops of the graph declare: `difference` is "" when they agree, else the first element that differs.  Of
 * the options only the symbols are read; may be NULL.  Outputs are row-major without gaps. */
TW_API TW_NODISCARD tw_status* tw_graph_compare(const tw_graph* graph, const DLTensor* const* inputs, int64_t input_count,
                                                const DLTensor* const* found, const DLTensor* const* expected,
                                                int64_t output_count, const tw_run_options* options,
                                                tw_text** difference);
/* A dense tensor of the session's device from its caching allocator, for work on the stream.  Its content is undefined. */
TW_API TW_NODISCARD tw_status* tw_session_allocate_on_device(tw_session* session, int32_t dtype, const int64_t* sizes,
                                                             int32_t rank, void* stream, DLManagedTensorVersioned** tensor);
/* Copies between two tensors of the same type and sizes, each on the host or on the session's device, ordered on the stream;
 * memory of the host is read or written when it returns. */
TW_API TW_NODISCARD tw_status* tw_session_copy(tw_session* session, const DLTensor* from, const DLTensor* to, void* stream);
/* Waits for the stream of the session's device (NULL: its default stream) and returns what went wrong there. */
TW_API TW_NODISCARD tw_status* tw_session_synchronize(tw_session* session, void* stream);
/* Calls the tensor's deleter, if it has one.  NULL does nothing. */
TW_API void tw_tensor_release(DLManagedTensorVersioned* tensor);

/* ---- custom calls -------------------------------------------------------------------------------------------------------- */

/* What one argument of the C function is filled with. */
enum {
  TW_ARGUMENT_DATA = 0,      /* pointer to the first element of a tensor */
  TW_ARGUMENT_SIZE = 1,      /* size of dim `index` */
  TW_ARGUMENT_STRIDE = 2,    /* stride of dim `index` in elements */
  TW_ARGUMENT_RANK = 3,      /* number of dims */
  TW_ARGUMENT_ELEMENTS = 4,  /* product of the sizes */
  TW_ARGUMENT_TENSOR = 5,    /* const DLTensor*, valid for the call */
  TW_ARGUMENT_INT = 6,       /* the constant `i` */
  TW_ARGUMENT_FLOAT = 7,     /* the constant `f` */
  TW_ARGUMENT_INT_ATTRIBUTE = 8,   /* element `index` of the node's attribute `ints` */
  TW_ARGUMENT_FLOAT_ATTRIBUTE = 9, /* element `index` of the node's attribute `floats` */
  TW_ARGUMENT_CONTEXT = 10   /* the call's `context` pointer */
};
/* C types of arguments and of the return value. */
enum {
  TW_CTYPE_DEFAULT = 0, /* pointer for data, tensor and context; int64_t for the other integers; double for floats */
  TW_CTYPE_VOID = 1,    /* return value only */
  TW_CTYPE_I32 = 2,
  TW_CTYPE_I64 = 3,
  TW_CTYPE_U32 = 4,
  TW_CTYPE_U64 = 5,
  TW_CTYPE_F32 = 6,
  TW_CTYPE_F64 = 7,
  TW_CTYPE_POINTER = 8,
  TW_CTYPE_STATUS = 9 /* return value only: tw_status*, taken by the library */
};
typedef struct tw_custom_argument {
  int64_t struct_size;
  const tw_extension* next;
  int32_t kind;   /* TW_ARGUMENT_* */
  int32_t ctype;  /* TW_CTYPE_* */
  int32_t tensor; /* operand number, or number of operands + result number */
  int32_t index;
  int64_t i;
  double f;
} tw_custom_argument;
typedef struct tw_custom_call {
  int64_t struct_size;
  const tw_extension* next;
  const char* name; /* the `target` attribute of custom_call nodes */
  void (*function)(void); /* the C function; NULL: `symbol` of `library` */
  const char* library;    /* opened with dlopen(RTLD_LOCAL) and kept open; NULL: the process itself */
  const char* symbol;
  const tw_custom_argument* arguments;
  int64_t argument_count;
  int32_t return_ctype; /* TW_CTYPE_DEFAULT is void; an integer other than 0 is an error of the run; TW_CTYPE_STATUS */
  int32_t operand_count;
  int32_t result_count;
  int32_t reserved;
  void* context;
} tw_custom_call;
/* Makes a C function callable from graphs of this session: a node `custom_call` names it in `target` and declares its result
 * types (`result_types`), which are the shape function: dims may be expressions.  Tensors are dense row-major.  The
 * function may be called from several threads at once.  A node names its gradient, another custom call, in `gradient`: it
 * takes the operands, the results, then a cotangent for each result of float type, and gives a gradient for each operand of
 * float type; `ints` and `floats` are passed on.  TW_ALREADY_EXISTS for a second
 * one of the same name, TW_NOT_FOUND for a library or symbol that is not there. */
TW_API TW_NODISCARD tw_status* tw_session_register_custom_call(tw_session* session, const tw_custom_call* call);

/* ---- the table of functions ---------------------------------------------------------------------------------------------- */

/* All functions above as one table (struct tw_api in tilewright/api.h), for hosts that dlopen the library: the only symbol
 * they look up.  NULL when this library has no such major version, or fewer functions than `caller_size` (sizeof(tw_api))
 * asks for.  Static. */
struct tw_api;
TW_API const struct tw_api* tw_get_api(uint32_t major, size_t caller_size);

/* ---- shorthand ----------------------------------------------------------------------------------------------------------- */

static inline tw_attribute tw_attribute_empty(const char* name, int32_t kind) {
  tw_attribute a;
  a.struct_size = (int64_t)sizeof(tw_attribute);
  a.next = NULL;
  a.name = name;
  a.kind = kind;
  a.reserved = 0;
  a.i = 0;
  a.f = 0;
  a.data = NULL;
  a.count = 0;
  return a;
}
static inline tw_attribute tw_bool(const char* name, int32_t value) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_BOOL);
  a.i = value;
  return a;
}
static inline tw_attribute tw_int(const char* name, int64_t value) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_INT);
  a.i = value;
  return a;
}
static inline tw_attribute tw_float(const char* name, double value) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_FLOAT);
  a.f = value;
  return a;
}
static inline tw_attribute tw_word(const char* name, const char* value) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_STRING);
  a.data = value;
  a.count = -1;
  return a;
}
static inline tw_attribute tw_dtype(const char* name, int32_t value) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_DTYPE);
  a.i = value;
  return a;
}
static inline tw_attribute tw_ints(const char* name, const int64_t* values, int64_t count) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_INTS);
  a.data = values;
  a.count = count;
  return a;
}
static inline tw_attribute tw_floats(const char* name, const double* values, int64_t count) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_FLOATS);
  a.data = values;
  a.count = count;
  return a;
}
static inline tw_attribute tw_dims(const char* name, const tw_dim* values, int64_t count) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_DIMS);
  a.data = values;
  a.count = count;
  return a;
}
static inline tw_attribute tw_types(const char* name, const tw_tensor_type* values, int64_t count) {
  tw_attribute a = tw_attribute_empty(name, TW_ATTRIBUTE_TYPES);
  a.data = values;
  a.count = count;
  return a;
}

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_H_ */
