/* SPDX-License-Identifier: MIT */
/*
 * The C interface of rkchain: chains of matmuls on the NPU of the RK3588.
 *
 *	rkchain_device *device;
 *	rkchain_weights *weights;
 *	int8_t a[M * K], b[N * K];
 *	int32_t c[M * N];
 *
 *	if (rkchain_open(NULL, &device) ||
 *	    rkchain_weights_pack_i8(device, K, N, b, N * K, RKCHAIN_NK, &weights) ||
 *	    rkchain_matmul_i8(device, M, K, N, a, weights, c))
 *		fprintf(stderr, "%s\n", rkchain_last_error());
 *
 * Every function that returns rkchain_status returns RKCHAIN_OK (0) or one of
 * the errors, and leaves what it would have given untouched then.  Of each
 * thread's last error rkchain_last_error() has the text.  A pointer that is
 * NULL, where nothing is said about NULL, gives RKCHAIN_INVALID_ARGUMENT.
 *
 * Matrices are dense and row-major: C[M,N] = A[M,K] * B[K,N], any M, K, N >= 1.
 * fp16 is passed as its bits in a uint16_t.  Counts are elements, not bytes.
 *
 * Handles may be freed in any order: each keeps alive what it needs.  Devices,
 * weights and streams may be used from several threads at once; building,
 * writing and reading one chain, and one future, are for one thread at a time.
 * A handle is freed once, when no call with it is under way.
 *
 * Structs begin with their size, to be set by the caller, so that they can
 * grow: members that a caller does not know are taken as 0, which is always
 * the default, and members that the library does not know must be 0.
 */
#ifndef RKCHAIN_H
#define RKCHAIN_H

#include <stdint.h>

#pragma GCC visibility push(default)

#ifdef __cplusplus
extern "C" {
#endif

/** What a function returns: RKCHAIN_OK or another of enum rkchain_errc. */
typedef int32_t rkchain_status;

enum rkchain_errc {
  RKCHAIN_OK = 0,
  RKCHAIN_INVALID_ARGUMENT = 1,  /**< breaks a limit; the text names both */
  RKCHAIN_OUT_OF_MEMORY = 2,     /**< host memory or device address space */
  RKCHAIN_NO_DEVICE = 3,         /**< no NPU, or no driver that can be used */
  RKCHAIN_PERMISSION = 4,        /**< a node exists and may not be opened */
  RKCHAIN_CHECK_FAILED = 5,      /**< a program was refused; see rkchain_last_check() */
  RKCHAIN_BUSY = 6,              /**< the chain is in flight, or built already */
  RKCHAIN_QUEUE_FULL = 7,        /**< try again after a completion */
  RKCHAIN_TIMED_OUT = 8,         /**< the caller's time is over; the work goes on */
  RKCHAIN_HUNG = 9,              /**< the NPU did not finish */
  RKCHAIN_DMA_ERROR = 10,        /**< the NPU touched an address that is not mapped */
  RKCHAIN_EARLY_COMPLETION = 11, /**< completion was signalled before the last block */
  RKCHAIN_DROPPED_DISPATCH = 12, /**< accepted and never started */
  RKCHAIN_IO = 13,               /**< any other failure */
  RKCHAIN_CANCELLED = 14,        /**< a predecessor failed, or the device was closed */
  RKCHAIN_UNSUPPORTED = 15,      /**< valid, but not with this back end */
  RKCHAIN_BAD_FORMAT = 16        /**< a file or text that cannot be read */
};

/** Which way to the NPU.  The environment's RKCHAIN_BACKEND decides what AUTO is. */
enum rkchain_backend {
  RKCHAIN_BACKEND_AUTO = 0, /**< the module, else the stock driver; never the model */
  RKCHAIN_BACKEND_KMOD = 1,
  RKCHAIN_BACKEND_STOCK = 2,
  RKCHAIN_BACKEND_MODEL = 3 /**< the software NPU */
};

/** How the device runs the blocks of one chain. */
enum rkchain_mode {
  RKCHAIN_MODE_WAIT = 0,
  RKCHAIN_MODE_WAIT41 = 1,
  RKCHAIN_MODE_LINK = 2,
  RKCHAIN_MODE_SINGLE = 3,
  RKCHAIN_MODE_AUTO = 4 /**< to open with: what is proven, see rkchain::OpenOptions::mode */
};

/** Element types of a matmul, input -> output. */
enum rkchain_type {
  RKCHAIN_I8_I32 = 0,  /**< exact int32 sums */
  RKCHAIN_I8_I8 = 1,   /**< sums saturated to int8 */
  RKCHAIN_F16_F32 = 2, /**< sums rounded to fp32 */
  RKCHAIN_F16_F16 = 3  /**< sums rounded to fp32, then to fp16 */
};

/** How the source of weights lies in memory. */
enum rkchain_order {
  RKCHAIN_NK = 0, /**< [N][K]: one row per output */
  RKCHAIN_KN = 1  /**< [K][N] */
};

/** Layout of operands and results on the device. */
enum rkchain_layout { RKCHAIN_FLAT = 0, RKCHAIN_NATIVE = 1 };

/** How the matmuls of a chain are spread over the cores. */
enum rkchain_strategy {
  RKCHAIN_ROTATE = 0, /**< one chain on one core; successive chains go round robin */
  RKCHAIN_SPLIT = 1,  /**< N of every matmul over all cores */
  RKCHAIN_FAN_OUT = 2 /**< the blocks of one chain dealt out to all cores, then a barrier */
};

/** Piece of silicon that the model plays; a mask in rkchain_open_options.model_flags. */
enum rkchain_model_flag {
  RKCHAIN_MODEL_NOWAIT = 1,   /**< op-enable bit 1 does not wait */
  RKCHAIN_MODEL_EARLY = 2,    /**< completion after the first block */
  RKCHAIN_MODEL_NEEDS41 = 4,  /**< op-enable needs the arm marker */
  RKCHAIN_MODEL_LATE = 8,     /**< the last output reaches memory after completion */
  RKCHAIN_MODEL_RAWLATE = 16, /**< an output reaches memory after the next block has read */
  RKCHAIN_MODEL_COLD = 32,    /**< the first output after power-on is lost */
  RKCHAIN_MODEL_PLAIN = 64,   /**< compute without vector instructions */
  RKCHAIN_MODEL_POISON = 128  /**< fill what chains leave behind with model_poison */
};

typedef struct rkchain_device rkchain_device;
typedef struct rkchain_weights rkchain_weights;
typedef struct rkchain_chain rkchain_chain;
typedef struct rkchain_stream rkchain_stream;
typedef struct rkchain_future rkchain_future;

/** An operand or a result within one chain. */
typedef uint32_t rkchain_tensor;

/* ---- errors and version ---- */

/** The library's version, "major.minor.patch". */
const char *rkchain_version(void);

/** A status in words; never NULL. */
const char *rkchain_strerror(rkchain_status status);

/**
 * Text of the last call of this thread that failed, with what was wrong and
 * which limit it broke.  Never NULL, "" when none has failed; valid until the
 * thread's next failure.
 */
const char *rkchain_last_error(void);

/**
 * What was refused, when the last call of this thread that failed gave
 * RKCHAIN_CHECK_FAILED.
 * @param reason number of the reason (kmod/core/reason.h), 0 if it was another error
 * @param block block of the chain, 0xffffffff if none
 * @param word 64-bit word within the block, 0xffffffff if none
 * Each may be NULL.
 */
rkchain_status rkchain_last_check(uint32_t *reason, uint32_t *block, uint32_t *word);

/* ---- device ---- */

typedef struct rkchain_open_options {
  uint32_t size;              /**< sizeof(rkchain_open_options) */
  uint32_t backend;           /**< enum rkchain_backend */
  uint32_t mode;              /**< enum rkchain_mode; the module has its own */
  uint32_t core_mask;         /**< cores that may be used, 0 = all */
  uint32_t queue_depth;       /**< chains queued before RKCHAIN_QUEUE_FULL, 0 = 256 */
  uint32_t model_flags;       /**< mask of enum rkchain_model_flag */
  uint32_t model_bad_cores;   /**< mask of cores that compute wrongly */
  uint32_t model_stuck_cores; /**< mask of cores that never finish */
  uint32_t model_drop_every;  /**< every n-th start is dropped, 0 = none */
  uint32_t model_poison;      /**< pattern for RKCHAIN_MODEL_POISON */
} rkchain_open_options;

typedef struct rkchain_info {
  uint32_t size;        /**< sizeof(rkchain_info) */
  uint32_t backend;     /**< enum rkchain_backend, not AUTO */
  uint32_t mode;        /**< enum rkchain_mode */
  uint32_t cores;       /**< how many there are */
  uint32_t usable_mask; /**< those that take work */
  uint32_t ordered;     /**< 1: a block may read an earlier block's output */
  char driver[64];      /**< "software NPU", "rknpu 0.9.8", ...; ends with 0 */
} rkchain_info;

typedef struct rkchain_core_stats {
  uint64_t chains;
  uint64_t blocks;
  uint64_t macs;    /**< multiplications, padding included */
  uint64_t busy_ns; /**< simulated time on the model */
} rkchain_core_stats;

typedef struct rkchain_stats {
  uint32_t size; /**< sizeof(rkchain_stats) */
  uint32_t reserved;
  uint64_t submits;    /**< to the NPU */
  uint64_t interrupts; /**< of the NPU */
  uint64_t tasks;
  uint64_t blocks;
  rkchain_core_stats core[3];
} rkchain_stats;

/**
 * Opens the NPU.
 * @param options NULL for the defaults
 * @return RKCHAIN_NO_DEVICE or RKCHAIN_PERMISSION with a text that says what to
 * do; RKCHAIN_INVALID_ARGUMENT, RKCHAIN_OUT_OF_MEMORY.
 */
rkchain_status rkchain_open(const rkchain_open_options *options, rkchain_device **device);

/** Closes it, once everything that was made with it is freed.  NULL is allowed. */
rkchain_status rkchain_close(rkchain_device *device);

/** What was opened.  @param info info->size is set by the caller */
rkchain_status rkchain_device_info(const rkchain_device *device, rkchain_info *info);

/** Work done since it was opened.  @param stats stats->size is set by the caller */
rkchain_status rkchain_device_stats(const rkchain_device *device, rkchain_stats *stats);

/* ---- weights ---- */

/**
 * Packs B[K,N], int8, as the NPU reads it, once; it stays on the device.
 * @param count elements of source, K * N
 * @param order enum rkchain_order
 * @return RKCHAIN_INVALID_ARGUMENT (a dimension is 0, count is not K * N, order),
 * RKCHAIN_OUT_OF_MEMORY.
 */
rkchain_status rkchain_weights_pack_i8(const rkchain_device *device, uint32_t k, uint32_t n,
                                       const int8_t *source, uint64_t count, uint32_t order,
                                       rkchain_weights **weights);

/** The same for fp16. */
rkchain_status rkchain_weights_pack_f16(const rkchain_device *device, uint32_t k, uint32_t n,
                                        const uint16_t *source, uint64_t count, uint32_t order,
                                        rkchain_weights **weights);

/** Bytes on the device, padding included. */
rkchain_status rkchain_weights_bytes(const rkchain_weights *weights, uint64_t *bytes);

/** Frees them, once no chain uses them any more.  NULL is allowed. */
rkchain_status rkchain_weights_free(rkchain_weights *weights);

/* ---- chains ---- */

typedef struct rkchain_chain_options {
  uint32_t size;     /**< sizeof(rkchain_chain_options) */
  uint32_t strategy; /**< enum rkchain_strategy */
  uint32_t layout;   /**< enum rkchain_layout */
} rkchain_chain_options;

/** What a built chain costs. */
typedef struct rkchain_plan {
  uint32_t size;     /**< sizeof(rkchain_plan) */
  uint32_t matmuls;  /**< as appended */
  uint32_t blocks;   /**< register programs after tiling */
  uint32_t segments; /**< registered chains */
  uint32_t submits;  /**< submits to the NPU per run in the device's mode */
  uint32_t reserved;
  uint64_t macs;         /**< padding included */
  uint64_t device_bytes; /**< operands and results, weights apart */
} rkchain_plan;

/**
 * Begins a chain: several matmuls that run as one job.
 * @param options NULL for the defaults
 */
rkchain_status rkchain_chain_create(const rkchain_device *device,
                                    const rkchain_chain_options *options, rkchain_chain **chain);

/** Frees it, after the run that may be in flight.  NULL is allowed. */
rkchain_status rkchain_chain_free(rkchain_chain *chain);

/**
 * Appends an operand A[M,K] that the CPU writes.
 * @param type enum rkchain_type, only its input element counts
 * @return RKCHAIN_INVALID_ARGUMENT (m or k is 0, type), RKCHAIN_BUSY (built).
 */
rkchain_status rkchain_chain_input(rkchain_chain *chain, uint32_t type, uint32_t m, uint32_t k,
                                   rkchain_tensor *tensor);

/**
 * Appends result = a * weights.
 * @param a an input, or the result of an earlier matmul whose element type can be
 *   an input (I8_I8, F16_F16): then the device feeds it on without the CPU
 * @param type enum rkchain_type
 * @return RKCHAIN_INVALID_ARGUMENT (K disagrees, type does not fit the weights, a
 * result that cannot be fed on and why), RKCHAIN_BUSY (built).
 */
rkchain_status rkchain_chain_matmul(rkchain_chain *chain, rkchain_tensor a,
                                    const rkchain_weights *weights, uint32_t type,
                                    rkchain_tensor *result);

/**
 * Plans, allocates, lays out, checks and registers.
 * @return RKCHAIN_OUT_OF_MEMORY, RKCHAIN_CHECK_FAILED, RKCHAIN_INVALID_ARGUMENT
 * (nothing appended).
 */
rkchain_status rkchain_chain_build(rkchain_chain *chain);

/** What it costs, once built.  @param plan plan->size is set by the caller */
rkchain_status rkchain_chain_plan(const rkchain_chain *chain, rkchain_plan *plan);

/** Shape of a tensor: M, K, N of a matmul; M, K, 0 of an input.  Each may be NULL. */
rkchain_status rkchain_chain_shape(const rkchain_chain *chain, rkchain_tensor tensor, uint32_t *m,
                                   uint32_t *k, uint32_t *n);

/**
 * Copies an operand in, between runs.
 * @param count M * K
 * @return RKCHAIN_INVALID_ARGUMENT (count, element type, not an input, not built),
 * RKCHAIN_BUSY (in flight).
 */
rkchain_status rkchain_chain_write_i8(rkchain_chain *chain, rkchain_tensor tensor,
                                      const int8_t *values, uint64_t count);
/** The same for fp16. */
rkchain_status rkchain_chain_write_f16(rkchain_chain *chain, rkchain_tensor tensor,
                                       const uint16_t *values, uint64_t count);

/**
 * Copies a result out, after a run.
 * @param count M * N
 * @return RKCHAIN_INVALID_ARGUMENT (count, element type, not a result, not built),
 * RKCHAIN_BUSY (in flight).
 */
rkchain_status rkchain_chain_read_i32(const rkchain_chain *chain, rkchain_tensor tensor,
                                      int32_t *values, uint64_t count);
/** The same for int8 results. */
rkchain_status rkchain_chain_read_i8(const rkchain_chain *chain, rkchain_tensor tensor,
                                     int8_t *values, uint64_t count);
/** The same for fp32 results. */
rkchain_status rkchain_chain_read_f32(const rkchain_chain *chain, rkchain_tensor tensor,
                                      float *values, uint64_t count);
/** The same for fp16 results. */
rkchain_status rkchain_chain_read_f16(const rkchain_chain *chain, rkchain_tensor tensor,
                                      uint16_t *values, uint64_t count);

/* ---- running ---- */

typedef struct rkchain_stream_options {
  uint32_t size;  /**< sizeof(rkchain_stream_options) */
  uint32_t depth; /**< runs in flight before submitting blocks, 0 = 32 */
} rkchain_stream_options;

typedef struct rkchain_submit_options {
  uint32_t size;      /**< sizeof(rkchain_submit_options) */
  uint32_t core_mask; /**< cores allowed, 0 = any */
  uint32_t ordered;   /**< 1: after everything that this stream has submitted before */
} rkchain_submit_options;

/** What became of one segment (one registered chain) of a run. */
typedef struct rkchain_segment {
  uint64_t sequence;
  uint32_t core;
  uint32_t retries;
  uint64_t queued_ns; /**< simulated time on the model, else CLOCK_MONOTONIC */
  uint64_t started_ns;
  uint64_t done_ns;
} rkchain_segment;

typedef struct rkchain_run {
  uint32_t size;     /**< sizeof(rkchain_run) */
  uint32_t capacity; /**< of segments, set by the caller */
  uint32_t count;    /**< segments of the run; those beyond capacity are not stored */
  uint32_t reserved;
  rkchain_segment *segments; /**< may be NULL when capacity is 0 */
} rkchain_run;

/** @param options NULL for the defaults */
rkchain_status rkchain_stream_create(const rkchain_device *device,
                                     const rkchain_stream_options *options,
                                     rkchain_stream **stream);

/** Waits for what is in flight, and frees it.  NULL is allowed. */
rkchain_status rkchain_stream_free(rkchain_stream *stream);

/**
 * Submits a built chain to the next free core; blocks while the stream is full.
 * @param options NULL for the defaults
 * @param future to be freed; NULL when nobody asks for the outcome
 * @return RKCHAIN_BUSY (this chain is in flight), RKCHAIN_INVALID_ARGUMENT (not
 * built, no usable core in the mask).
 */
rkchain_status rkchain_stream_submit(rkchain_stream *stream, rkchain_chain *chain,
                                     const rkchain_submit_options *options,
                                     rkchain_future **future);

/** The same without blocking: RKCHAIN_QUEUE_FULL when the stream is full. */
rkchain_status rkchain_stream_try_submit(rkchain_stream *stream, rkchain_chain *chain,
                                         const rkchain_submit_options *options,
                                         rkchain_future **future);

/** Waits until nothing is in flight.  Failures stay with their futures. */
rkchain_status rkchain_stream_drain(rkchain_stream *stream);

/**
 * Waits until a run has ended, well or not.
 * @param timeout_ns negative: without limit
 * @return RKCHAIN_TIMED_OUT when it has not.
 */
rkchain_status rkchain_future_wait(const rkchain_future *future, int64_t timeout_ns);

/**
 * Waits, and says what became of the run.  Once only.
 * @param run NULL, or run->size, capacity and segments are set by the caller
 * @return RKCHAIN_OK; RKCHAIN_HUNG, RKCHAIN_DMA_ERROR, RKCHAIN_EARLY_COMPLETION,
 * RKCHAIN_DROPPED_DISPATCH, RKCHAIN_IO, RKCHAIN_CANCELLED, RKCHAIN_NO_DEVICE: results are
 * not to be used.
 */
rkchain_status rkchain_future_get(rkchain_future *future, rkchain_run *run);

/** Does not cancel the run.  NULL is allowed. */
rkchain_status rkchain_future_free(rkchain_future *future);

/* ---- one-shot ---- */

/**
 * One matmul from host memory to host memory: packs, runs, unpacks.
 * @param a M * K elements
 * @param weights K x N, int8
 * @param c M * N elements
 * @return what building, submitting and waiting for a chain can give.
 */
rkchain_status rkchain_matmul_i8(const rkchain_device *device, uint32_t m, uint32_t k, uint32_t n,
                                 const int8_t *a, const rkchain_weights *weights, int32_t *c);
/** The same for fp16 with fp32 results. */
rkchain_status rkchain_matmul_f16(const rkchain_device *device, uint32_t m, uint32_t k, uint32_t n,
                                  const uint16_t *a, const rkchain_weights *weights, float *c);

/** Rounds fp32 to fp16, to nearest even; too large becomes infinity. */
rkchain_status rkchain_to_f16(const float *from, uint16_t *to, uint64_t count);
/** fp16 to fp32, exact. */
rkchain_status rkchain_from_f16(const uint16_t *from, float *to, uint64_t count);

#ifdef __cplusplus
}
#endif

#pragma GCC visibility pop

#endif /* RKCHAIN_H */
