// Runs a function on a thread with a stack of 512 KiB: deep recursion would end the program.
#pragma once

#include <pthread.h>

#include <exception>
#include <stdexcept>

template <class F>
void on_small_stack(F f) {
  struct Job {
    F* body;
    std::exception_ptr error;
  } job{&f, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 * 1024);
  pthread_t thread;
  const int failed = pthread_create(
      &thread, &attributes,
      [](void* p) -> void* {
        Job& mine = *static_cast<Job*>(p);
        try {
          (*mine.body)();
        } catch (...) {
          mine.error = std::current_exception();
        }
        return nullptr;
      },
      &job);
  pthread_attr_destroy(&attributes);
  if (failed != 0) throw std::runtime_error("no thread with a small stack");
  pthread_join(thread, nullptr);
  if (job.error) std::rethrow_exception(job.error);
}
