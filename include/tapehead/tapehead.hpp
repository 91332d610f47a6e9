// Everything: train, check and understand toy Transformers.
#pragma once

#include <tapehead/attention.hpp>      // what can be different about attention
#include <tapehead/call_site.hpp>      // where an op was called
#include <tapehead/catalog.hpp>        // every op with formula and samples
#include <tapehead/error.hpp>          // what is thrown
#include <tapehead/float32.hpp>        // which op loses digits?
#include <tapehead/generate.hpp>       // sampling and beam search
#include <tapehead/gradcheck.hpp>      // are the gradients right?
#include <tapehead/io.hpp>             // named tensors in files
#include <tapehead/mask.hpp>           // which keys a query may see
#include <tapehead/models.hpp>         // Transformers
#include <tapehead/nn.hpp>             // modules
#include <tapehead/ops.hpp>            // the operations
#include <tapehead/optim.hpp>          // optimisers, clipping, schedules
#include <tapehead/params.hpp>         // named weights
#include <tapehead/profile.hpp>        // where time and memory go
#include <tapehead/python_random.hpp>  // random numbers of Python programs
#include <tapehead/random.hpp>         // random streams
#include <tapehead/record.hpp>         // writing ops
#include <tapehead/reproduce.hpp>      // published results
#include <tapehead/runs.hpp>           // configurations, models by name, checkpoints
#include <tapehead/system.hpp>         // version, BLAS, threads, memory
#include <tapehead/tape.hpp>           // recording and backward
#include <tapehead/tasks.hpp>          // sequence tasks
#include <tapehead/tensor.hpp>         // tensors
#include <tapehead/torch_names.hpp>    // weights of PyTorch modules
#include <tapehead/train.hpp>          // the training loop
#include <tapehead/trials.hpp>         // many runs side by side
