#include "eadem/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "eadem/base/float_environment.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace eadem {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// A fork-join pool: the caller publishes a job, everybody takes ranges off one counter, and the caller leaves when
// all ranges are finished (it counts finished ranges, never workers, so that a worker that the system has not
// scheduled holds nobody up). Workers spin for the next job, then yield, then sleep.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  ~Pool() { resize(1); }

  int size() const { return size_.load(std::memory_order_relaxed); }

  void resize(int count) {
    const std::lock_guard busy(busy_);
    if (count == size()) return;
    {
      const std::lock_guard lock(mutex_);
      stop_.store(true);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stop_.store(false);
    size_.store(count);
    // With a core for each thread, waiting takes nothing from the other threads.
    spins_.store(count <= static_cast<int>(std::thread::hardware_concurrency()) ? kLongSpins : kShortSpins);
    for (int i = 1; i < count; ++i) workers_.emplace_back([this, seen = generation_.load()] { work(seen); });
  }

  void run(std::int64_t count, std::int64_t grain, void* closure, detail::Chunk chunk) {
    // One job at a time; a busy pool (another thread's job, or a nested call) means run inline.
    if (inside_) return chunk(closure, 0, count);
    const std::unique_lock busy(busy_, std::try_to_lock);
    if (!busy || size() == 1) return chunk(closure, 0, count);
    inside_ = true;
    Failure failure;
    const std::int64_t ranges = std::min<std::int64_t>((count + grain - 1) / grain, std::int64_t{4} * size());
    const std::int64_t step = (count + ranges - 1) / ranges;
    const std::uint64_t generation = publish({closure, chunk, &failure, count, step, (count + step - 1) / step});
    take_ranges(generation);
    // A worker that holds the last range may be waiting for this core: spin, then let others run.
    const int spins = spins_.load(std::memory_order_relaxed);
    for (int spin = 0; finished_.load(std::memory_order_acquire) < job_.ranges; ++spin)
      spin < spins ? relax() : std::this_thread::yield();
    inside_ = false;
    if (failure.error) std::rethrow_exception(failure.error);
  }

 private:
  // About 20 us of spinning, then some 300 us in which others may run: a decoding step has a job every 30 us, and a
  // worker that went to sleep in between would cost it more than that to wake. Where every thread has a core, ten times
  // the spinning: who yields to another program waits for the end of its time slice.
  static constexpr int kShortSpins = 2000, kLongSpins = 20000, kYields = 1000;

  // What became of a job; it lies on the caller's stack, which nobody reads after the last range is finished.
  struct Failure {
    std::atomic<bool> failed{false};
    std::exception_ptr error;  // of the thread that set `failed`
  };
  struct Job {
    void* closure;
    detail::Chunk chunk;
    Failure* failure;
    std::int64_t count, step, ranges;
  };

  // The ticket holds the job's generation in its upper half and the next range in its lower half, so a late worker
  // can never take a range of a job other than the one it read.
  std::uint64_t publish(const Job& job) {
    const std::uint64_t generation = generation_.load(std::memory_order_relaxed) + 1;
    // Close the old job first: nobody holds a range of it any more, and from here nobody can take one.
    ticket_.store((generation << 32) | 0xffffffffu, std::memory_order_seq_cst);
    while (readers_.load(std::memory_order_seq_cst) != 0) relax();
    job_ = job;
    finished_.store(0, std::memory_order_relaxed);
    ticket_.store(generation << 32, std::memory_order_release);
    generation_.store(generation, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) {
      { const std::lock_guard lock(mutex_); }
      wake_.notify_all();
    }
    return generation;
  }

  void take_ranges(std::uint64_t generation) {
    readers_.fetch_add(1, std::memory_order_seq_cst);
    std::uint64_t ticket = ticket_.load(std::memory_order_seq_cst);
    const bool open = (ticket >> 32) == (generation & 0xffffffffu) && (ticket & 0xffffffffu) != 0xffffffffu;
    const Job job = open ? job_ : Job{};
    readers_.fetch_sub(1, std::memory_order_seq_cst);
    if (!open) return;
    for (;;) {
      if ((ticket >> 32) != (generation & 0xffffffffu)) return;
      const auto range = static_cast<std::int64_t>(ticket & 0xffffffffu);
      if (range >= job.ranges) return;
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
      run_range(job, range);
      finished_.fetch_add(1, std::memory_order_acq_rel);
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  static void run_range(const Job& job, std::int64_t range) noexcept {
    if (job.failure->failed.load(std::memory_order_relaxed)) return;
    try {
      job.chunk(job.closure, range * job.step, std::min(job.count, (range + 1) * job.step));
    } catch (...) {
      if (!job.failure->failed.exchange(true, std::memory_order_relaxed)) job.failure->error = std::current_exception();
    }
  }

  void work(std::uint64_t seen) {
    inside_ = true;
    FloatEnvironment::keep();  // a thread inherits its creator's
    for (;;) {
      std::uint64_t generation = seen;
      const int spins = spins_.load(std::memory_order_relaxed);
      for (int spin = 0; spin < spins + kYields; ++spin) {
        generation = generation_.load(std::memory_order_acquire);
        if (generation != seen || stop_.load(std::memory_order_relaxed)) break;
        spin < spins ? relax() : std::this_thread::yield();
      }
      if (generation == seen) {
        std::unique_lock lock(mutex_);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return stop_.load() || generation_.load(std::memory_order_seq_cst) != seen; });
        sleeping_.fetch_sub(1, std::memory_order_seq_cst);
        generation = generation_.load();
      }
      if (stop_.load()) return;
      seen = generation;
      take_ranges(generation);
    }
  }

  std::mutex busy_, mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
  std::atomic<int> size_{1}, spins_{kShortSpins}, sleeping_{0}, readers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<std::uint64_t> generation_{0};
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<std::int64_t> finished_{0};
  Job job_{};
  static thread_local bool inside_;
};

thread_local bool Pool::inside_ = false;

}  // namespace

int threads() {
  return Pool::instance().size();
}

void set_threads(int count) {
  Pool::instance().resize(std::max(count, 1));
}

void detail::parallel_for(std::int64_t count, std::int64_t grain, void* closure, Chunk chunk) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (count <= grain) return chunk(closure, 0, count);
  Pool::instance().run(count, grain, closure, chunk);
}

}  // namespace eadem
