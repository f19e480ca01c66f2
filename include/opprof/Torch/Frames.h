// The C ABI of what reads CPython's frames. libopprof_frames.so tells the
// observer where in a Python program an operator was called: the modules whose
// call encloses it, and the deepest line outside of PyTorch. It is built
// against the headers of one version of CPython, whose layout of frames it
// reads.

#ifndef OPPROF_TORCH_FRAMES_H
#define OPPROF_TORCH_FRAMES_H

#include "opprof/Torch/Observer.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Begins to follow: `moduleCall` is the code object of nn.Module's call, and
 *  `hidden` holds `count` folders whose code is not the user's, PyTorch's own
 *  first. The caller holds the interpreter's lock. Null, or what stands in the
 *  way. */
OPPROF_OBSERVER_API const char *
opprof_frames_start(void *moduleCall, const char *const *hidden, size_t count);

/** What is to be given to opprof_observer_set_places; null before the start. */
OPPROF_OBSERVER_API const opprof_place_source *opprof_frames_source(void);

#ifdef __cplusplus
}
#endif

#endif // OPPROF_TORCH_FRAMES_H
