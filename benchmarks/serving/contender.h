// A server within this process that counts or does not, and asking it.

#ifndef PLANB_BENCHMARKS_SERVING_CONTENDER_H_
#define PLANB_BENCHMARKS_SERVING_CONTENDER_H_

#include <grpcpp/channel.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/batch_stream.h"
#include "server/server.h"

namespace planb::metrics {

// Ends the program with the reason: a measurement that failed is none.
[[noreturn]] void Die(const absl::Status& status);

// What all contenders have in common.
struct ServerChoice {
  uint64_t routes = 100'000;  // made up
  int cpu = -1;               // of the server's thread; -1: any
};

// Not thread-safe.
class Contender {
 public:
  Contender(const char* name, const ServerChoice& choice, bool counting);
  ~Contender();
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  const char* name() const { return name_; }

  // How one server is asked.
  struct Turn {
    size_t batch = 1;  // addresses
    std::chrono::nanoseconds duration{0};
    // If not 0, so many batches instead of a time, and nothing to warm up.
    uint64_t count = 0;
  };
  // Of one batch.
  struct Times {
    double nanoseconds = 0;
    double server_cpu = 0;  // nanoseconds, of all threads but the caller's
  };

  // Asks for the addresses of `trace`, 16 octets each, over and over, with as
  // many batches in flight as keep the server busy.
  Times Ask(const std::string& trace, const Turn& turn);

 private:
  // Returns how many batches were answered; none is left in flight.
  static uint64_t Exchange(client::BatchStream& stream,
                           const std::string& trace, const Turn& turn);

  const char* const name_;
  std::string path_;
  std::unique_ptr<server::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace planb::metrics

#endif  // PLANB_BENCHMARKS_SERVING_CONTENDER_H_
