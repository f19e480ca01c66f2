// The C ABI of the observer. libopprof_observer.so notes every operator that a
// program runs through LibTorch, with what a report needs to say where it came
// from, in a file of docs/formats/capture.md. It holds no Python: what knows
// the interpreter's frames (Frames.h) lends it a source of places.
//
// The library is built against one version of LibTorch, which promises no ABI
// across versions: whoever loads it compares opprof_observer_torch() first.

#ifndef OPPROF_TORCH_OBSERVER_H
#define OPPROF_TORCH_OBSERVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPPROF_OBSERVER_ABI 4
#define OPPROF_OBSERVER_API __attribute__((visibility("default")))

/** No place. */
#define OPPROF_NO_PLACE 0xffffffffu

typedef struct opprof_observer_options {
  size_t size; /* sizeof(opprof_observer_options) */
  /* The file is opprof_observer_file(prefix); a fork has its own. */
  const char *prefix;
  uint32_t shapes;            /* record sizes and types of inputs */
  uint32_t flush_ms;          /* how often records are written; 0 is 500 */
  uint64_t limit_bytes;       /* no file grows larger; 0 is 2 GiB */
  double delay_s, duration_s; /* the time to record; a duration of 0 is all */
  /* libopprof_capture.so, whose launches are to carry the operators' ids, or
     null. */
  const char *capture;
  /* The steps to record, the first and the one after the last, or 0 and 0. What
     runs until the first step has ended is recorded too, and dropped then;
     where none ends, it is recorded for `search_s` seconds; 0 is 30. */
  uint64_t first_step, end_step;
  double search_s;
  /* Where `capture` writes in these steps: opprof_observer_file of it; null
     where there is no GPU. */
  const char *capture_prefix;
  uint32_t memory; /* record what is allocated and freed, of each device */
} opprof_observer_options;

/** Tells where in the program a thread is. Called on the thread itself, with or
 *  without the interpreter's lock. */
typedef struct opprof_place_source {
  /* The innermost frame of this thread, or null: only compared. */
  const void *(*frame)(void);
  /* The place of the frames from the innermost, `frame`, up to `until` (all,
     where that is null), or OPPROF_NO_PLACE. */
  uint32_t (*place)(const void *frame, const void *until);
} opprof_place_source;

OPPROF_OBSERVER_API int opprof_observer_abi(void);
/** The version of LibTorch that the library was built against: "2.13.0". */
OPPROF_OBSERVER_API const char *opprof_observer_torch(void);
/** What was wrong with the last call that failed; "" when none did. */
OPPROF_OBSERVER_API const char *opprof_observer_last_error(void);

/** The path of the file of this process whose kind and folder `prefix` says;
 *  valid until the thread's next call. */
OPPROF_OBSERVER_API const char *opprof_observer_file(const char *prefix);

/** Begins to record every thread of the process. 0, or 1 with an error. */
OPPROF_OBSERVER_API int
opprof_observer_start(const opprof_observer_options *options);
/** Has a later recording know what is held when it begins, and where that was
 *  allocated from now on. */
OPPROF_OBSERVER_API void opprof_observer_follow_memory(void);
/** Writes what was recorded, and ends the file. */
OPPROF_OBSERVER_API int opprof_observer_stop(void);
/** Writes what was recorded until now. */
OPPROF_OBSERVER_API int opprof_observer_flush(void);

/** `source` is kept, not copied. */
OPPROF_OBSERVER_API void
opprof_observer_set_places(const opprof_place_source *source);
/** The number of a place; texts may be empty, and `line` 0. */
OPPROF_OBSERVER_API uint32_t opprof_observer_add_place(const char *module,
                                                       const char *file,
                                                       const char *function,
                                                       uint32_t line,
                                                       const char *group);
/** The observer's clock, in nanoseconds. */
OPPROF_OBSERVER_API uint64_t opprof_observer_now(void);
/** Notes what else the calling thread did from `start` to now, where it is
 *  now. */
OPPROF_OBSERVER_API void opprof_observer_note(const char *name, uint64_t start);

/** Counts steps apart from the recording, and by the same rule: a range of that
 *  name, "Optimizer.step#SGD.step", has ended at a place of a number of the
 *  caller's. The number of steps until now where one has ended with it, the
 * same again where the last one goes on until here, and -1 for all others. */
OPPROF_OBSERVER_API int64_t opprof_observer_count_step(const char *range,
                                                       uint32_t place);

#ifdef __cplusplus
}
#endif

#endif // OPPROF_TORCH_OBSERVER_H
