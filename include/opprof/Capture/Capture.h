// The C ABI of libopprof_capture. Timeline and hardware counters of a CUDA
// program, taken from inside its own process through CUPTI. Plain C types only:
// Python calls it through ctypes, and the CUDA driver loads the same library
// into programs that know nothing of it (CUDA_INJECTION64_PATH).
//
// Every function may be called from any thread. Functions that can fail return
// a status; opprof_capture_last_error() then says, on the same thread, what was
// wrong and what to do.

#ifndef OPPROF_CAPTURE_CAPTURE_H
#define OPPROF_CAPTURE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPPROF_CAPTURE_ABI 1
#define OPPROF_CAPTURE_API __attribute__((visibility("default")))

enum opprof_status {
  OPPROF_OK = 0,
  OPPROF_NO_CUPTI = 1,       /* CUPTI was not found or is too old */
  OPPROF_NO_DEVICE = 2,      /* no driver, no context, or no supported device */
  OPPROF_BUSY = 3,           /* another tool of this process holds CUPTI */
  OPPROF_PERMISSION = 4,     /* the driver keeps counters for administrators */
  OPPROF_INVALID = 5,        /* an argument or a call out of order */
  OPPROF_IO = 6,             /* the file could not be written */
  OPPROF_UNKNOWN_METRIC = 7, /* no such counter; the text names near ones */
  OPPROF_NOT_REPLAYABLE = 8, /* passes launched different kernels, or a graph */
  OPPROF_FORKED = 9,         /* this is a fork of the process that captures */
  OPPROF_CUPTI_ERROR = 10    /* CUPTI failed; the text holds its message */
};

/** What activity to record; a bit set of opprof_capture_options.kinds. */
enum opprof_kinds {
  OPPROF_KERNELS = 1,
  OPPROF_COPIES = 2, /* memcpy and memset */
  OPPROF_API = 4,    /* the driver's calls that put work on a device, wait for
                        it, or allocate; those of the runtime end in them */
  OPPROF_SYNCS = 8,  /* CUPTI's records of waits, with streams and events. Not
                        among the default kinds: they cost every launch about as
                        much as its own record, and OPPROF_API has the waits of
                        the host */
  OPPROF_OVERHEAD = 16,
  OPPROF_IDS = 32, /* external ids, and the nodes of CUDA graphs */
  OPPROF_MARKERS = 64,
  OPPROF_MEMORY = 128,
  OPPROF_ALL_API = 256, /* every runtime and driver call */
  OPPROF_DEFAULT_KINDS = 1 | 2 | 4 | 16 | 32 | 64
};

OPPROF_CAPTURE_API int opprof_capture_abi(void);

/** The message of this thread's last failure; "" when there was none. */
OPPROF_CAPTURE_API const char *opprof_capture_last_error(void);

/** Finds CUPTI: `path`, or $OPPROF_CUPTI_LIBRARY, or the copy that the process
 *  holds already, or the one beside a loaded CUDA runtime, or the loader's. */
OPPROF_CAPTURE_API int opprof_capture_load(const char *path);

/** One line of JSON: CUPTI's path and version, the driver's, devices. Returns
 *  the length it needs; writes at most `size` bytes, with a final zero. */
OPPROF_CAPTURE_API size_t opprof_capture_info(char *buffer, size_t size);

/* --- The timeline -------------------------------------------------------- */

typedef struct opprof_capture_options {
  size_t size;           /* sizeof(opprof_capture_options) */
  const char *path;      /* the file to write */
  uint32_t kinds;        /* opprof_kinds; 0 is the default set */
  uint32_t buffer_bytes; /* of one activity buffer; 0 is 2 MiB */
  uint64_t pool_bytes;   /* at most this much in buffers; 0 is 1 GiB */
  uint32_t flush_ms;     /* how often finished records are flushed; 0 is 500 */
  uint32_t paused;       /* begin with recording off */
} opprof_capture_options;

typedef struct opprof_capture_stats {
  uint64_t records, lost, bytes, buffers, buffer_peak_bytes;
} opprof_capture_stats;

OPPROF_CAPTURE_API int
opprof_capture_start(const opprof_capture_options *options);
/** Turns recording off and on again, without ending the file. */
OPPROF_CAPTURE_API int opprof_capture_pause(void);
OPPROF_CAPTURE_API int opprof_capture_resume(void);
/** Waits until everything that ran so far is in the file. The caller has
 *  synchronized its devices. */
OPPROF_CAPTURE_API int opprof_capture_flush(void);
OPPROF_CAPTURE_API int opprof_capture_stop(opprof_capture_stats *stats);
/** 1 while a file is being written, 0 otherwise. */
OPPROF_CAPTURE_API int opprof_capture_active(void);

/** kind: 1 a step begins, 2 a step ends (`value` is its number), 3 a note. */
OPPROF_CAPTURE_API int opprof_capture_mark(uint32_t kind, uint64_t value,
                                           const char *name);

/* --- Identity ------------------------------------------------------------ */

/** Launches of this thread carry `id` until the matching pop. */
OPPROF_CAPTURE_API int opprof_capture_push_id(uint64_t id);
OPPROF_CAPTURE_API int opprof_capture_pop_id(void);
/** What an id stands for, written to the file (JSON by convention). */
OPPROF_CAPTURE_API int opprof_capture_name_id(uint64_t id, const char *text);
/** Launches of this thread carry `id` until the next call; 0 ends that. A
 *  cheaper form for code that runs from place to place, such as the lines of a
 *  generated wrapper. */
OPPROF_CAPTURE_API void opprof_capture_at_id(uint64_t id);

/** Where a Python function gets to what an id stands for. */
typedef struct opprof_place {
  const void *code; /* the code object */
  uint64_t id;
  void *path;      /* what opprof_python_objects.move is called with, or null */
  uint32_t offset; /* of an instruction, as sys.monitoring counts: in bytes */
} opprof_place;

/** Python objects that the callbacks hold. */
typedef struct opprof_python_objects {
  void *disable; /* sys.monitoring.DISABLE */
  void *move;    /* called where a thread gets to a place of another path than
                    the place before; null where places have no path */
  void *outside; /* the path of a thread that is in none of the functions */
} opprof_python_objects;

/** For CPython's sys.monitoring: a new reference to a tuple of two builtin
 *  functions, or null with the interpreter's error set, or null without one
 *  where no CPython is found in the process. The first, for INSTRUCTION, sets
 *  the id of a place, as opprof_capture_at_id does, and returns None; at any
 *  other instruction it returns `disable`. The second, for PY_RETURN and
 *  PY_UNWIND, ends the id where one of the functions is left. The caller holds
 *  the interpreter's lock and keeps the code objects. */
OPPROF_CAPTURE_API void *
opprof_python_callbacks(const opprof_place *places, size_t count,
                        const opprof_python_objects *objects);

/* --- Launches ------------------------------------------------------------ */

typedef struct opprof_launch {
  const char *name; /* of the kernel, as the driver has it; valid until the next
                       opprof_launches_begin */
  uint64_t external_id;
  int32_t grid[3];
  int32_t block[3];
  uint32_t kind; /* 0 kernel, 1 CUDA graph */
  /* From the timeline, when a capture was recording and has been flushed since;
     0xffffffff when unknown. */
  uint32_t registers, local_bytes, static_shared, dynamic_shared;
  uint32_t duration_ns;
} opprof_launch;

/** Records the launches of the process, in order, until opprof_launches_end;
 *  they are what counter passes are held against. */
OPPROF_CAPTURE_API int opprof_launches_begin(void);
OPPROF_CAPTURE_API int opprof_launches_end(size_t *count);
OPPROF_CAPTURE_API int opprof_launches_get(size_t index, opprof_launch *out);
/** The kernels that one launch of a CUDA graph ran, in the order of the graph's
 *  nodes, which is that of their capture. Known once the timeline has been
 *  flushed; INVALID past the last one. `name` is valid until the next
 *  opprof_launches_begin. */
OPPROF_CAPTURE_API int opprof_launches_kernel(size_t launch, size_t index,
                                              opprof_launch *out);

/* --- Counters ------------------------------------------------------------ */

typedef struct opprof_counters opprof_counters;

enum opprof_replay { OPPROF_USER_REPLAY = 0, OPPROF_KERNEL_REPLAY = 1 };
enum opprof_ranges {
  OPPROF_RANGE_ALL = 0,      /* one a kernel, kernels one after the other */
  OPPROF_RANGE_SELECTED = 1, /* one a selected launch */
  OPPROF_RANGE_STEP = 2,     /* one over all of a pass, at the step's own speed:
                                its row has launch 0. CUDA graphs may be in it */
};

typedef struct opprof_counters_options {
  size_t size; /* sizeof(opprof_counters_options) */
  const char *const *metrics;
  size_t metric_count;
  uint32_t replay;          /* opprof_replay */
  uint32_t ranges;          /* opprof_ranges */
  const uint64_t *selected; /* with OPPROF_RANGE_SELECTED: pairs [first, last)
                               of launch indices, ascending */
  size_t selected_count;    /* number of pairs */
  uint32_t check_availability; /* ask the device which counters it lends */
  uint32_t uncounted_runs; /* how often each pass runs the step before the run
                              that counts. CUPTI leaves written lines in the L2
                              when a pass starts; one run evicts them */
} opprof_counters_options;

/** Prepares counters for the launches last recorded, on the calling thread's
 *  CUDA context. Metrics that the chip or the device lacks are left out, with
 *  a reason in opprof_counters_report. */
OPPROF_CAPTURE_API int
opprof_counters_open(const opprof_counters_options *options,
                     opprof_counters **out);
OPPROF_CAPTURE_API size_t opprof_counters_passes(const opprof_counters *c);
OPPROF_CAPTURE_API int opprof_counters_begin_pass(opprof_counters *c);
/** Between two runs of a pass. */
OPPROF_CAPTURE_API int opprof_counters_next_run(opprof_counters *c);
/** `*more` is 1 while another pass is wanted. Fails with NOT_REPLAYABLE when
 *  the pass launched other kernels than the recording. */
OPPROF_CAPTURE_API int opprof_counters_end_pass(opprof_counters *c, int *more);
/** Reads the counters out; they go into the capture file when one is open. */
OPPROF_CAPTURE_API int opprof_counters_finish(opprof_counters *c);
OPPROF_CAPTURE_API size_t opprof_counters_rows(const opprof_counters *c);
/** Values in the order of the metrics asked for; NaN where one is absent. */
OPPROF_CAPTURE_API int opprof_counters_row(const opprof_counters *c,
                                           size_t index, uint64_t *launch,
                                           double *values);
/** One line of JSON: chip, passes, seconds by stage, absent metrics. */
OPPROF_CAPTURE_API const char *opprof_counters_report(opprof_counters *c);
/** Ends profiling on the context, whatever state `c` is in. */
OPPROF_CAPTURE_API void opprof_counters_close(opprof_counters *c);

/** Host side only, no device: how many passes the metrics take on a chip such
 *  as "GH100". Fails with UNKNOWN_METRIC, naming near names. */
OPPROF_CAPTURE_API int opprof_metrics_passes(const char *chip,
                                             const char *const *metrics,
                                             size_t count, size_t *passes);

/* --- Files --------------------------------------------------------------- */

/** What communication costs `count` captures, each of the rank of the same
 *  place, on the clock of the first: JSON in the file `measures`. */
OPPROF_CAPTURE_API int opprof_capture_measure_ranks(const char *const *paths,
                                                    const uint32_t *ranks,
                                                    size_t count,
                                                    const char *measures);
/** As opprof_capture_info: returns the length that the text needs, 0 on error.
 */
OPPROF_CAPTURE_API size_t opprof_capture_summarize(const char *path,
                                                   char *buffer, size_t size);

/** A kernel's name as its source has it; other names stay as they are. Returns
 *  the length that it needs, as opprof_capture_info does. */
OPPROF_CAPTURE_API size_t opprof_demangle(const char *name, char *buffer,
                                          size_t size);

/** Called by the CUDA driver in programs started with CUDA_INJECTION64_PATH.
 *  Reads OPPROF_CAPTURE_FILE (%p process, %r rank or 0, %h host, %n what
 *  `opprof run` ends its names with: r<rank>-p<process>),
 *  OPPROF_CAPTURE_KINDS, OPPROF_CAPTURE_DELAY and OPPROF_CAPTURE_DURATION
 *  (seconds). */
OPPROF_CAPTURE_API int InitializeInjection(void);

/** Has InitializeInjection do nothing in this process from now on. */
OPPROF_CAPTURE_API void opprof_capture_decline_injection(void);

/** Called by NVTX in programs started with NVTX_INJECTION64_PATH: hands its
 *  ranges to the CUPTI of this process, wherever that came from. */
OPPROF_CAPTURE_API int InitializeInjectionNvtx2(void *exportTable);

#ifdef __cplusplus
}
#endif

#endif // OPPROF_CAPTURE_CAPTURE_H
