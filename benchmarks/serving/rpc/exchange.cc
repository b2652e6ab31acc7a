// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lpm/kernels/kernel.h"

namespace planb::rpc {
namespace {

// One of the two kinds, as the system calls want it.
struct Name {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  std::string path;  // of a Unix socket

  int family() const { return storage.ss_family; }
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

absl::Status Failed(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::StatusOr<Name> Parse(absl::string_view address) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("\"", address,
                   "\" is neither \"unix:///path\" nor "
                   "\"a.b.c.d:port\""));
  Name name;
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    absl::ConsumePrefix(&path, "//");
    sockaddr_un un = {};
    un.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(un.sun_path)) return wrong;
    std::memcpy(un.sun_path, path.data(), path.size());
    std::memcpy(&name.storage, &un, sizeof(un));
    name.size = sizeof(un);
    name.path = std::string(path);
    return name;
  }
  const size_t colon = address.rfind(':');
  uint32_t port;
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  if (colon == address.npos ||
      inet_pton(AF_INET, std::string(address.substr(0, colon)).c_str(),
                &in.sin_addr) != 1 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return wrong;
  }
  in.sin_port = htons(static_cast<uint16_t>(port));
  std::memcpy(&name.storage, &in, sizeof(in));
  name.size = sizeof(in);
  return name;
}

void SetBuffer(int fd, int forced, int option) {
  constexpr int kBytes = 4 << 20;
  // Only root may go beyond net.core.{w,r}mem_max.
  if (setsockopt(fd, SOL_SOCKET, forced, &kBytes, sizeof(kBytes)) == 0) return;
  setsockopt(fd, SOL_SOCKET, option, &kBytes, sizeof(kBytes));
}

absl::Status Tune(const Socket& socket) {
  const int fd = socket.fd();
  SetBuffer(fd, SO_SNDBUFFORCE, SO_SNDBUF);
  SetBuffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
  int domain = 0;
  socklen_t size = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain == AF_UNIX) return absl::OkStatus();
  const int yes = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0) {
    return Failed("TCP_NODELAY");
  }
  return absl::OkStatus();
}

absl::StatusOr<Socket> Open(const Name& name) {
  Socket socket(::socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Failed("socket");
  const absl::Status tuned = Tune(socket);
  if (!tuned.ok()) return tuned;
  return socket;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Socket> ListenOn(absl::string_view address) {
  const auto name = Parse(address);
  if (!name.ok()) return name.status();
  auto socket = Open(*name);
  if (!socket.ok()) return socket;
  if (name->path.empty()) {
    const int yes = 1;
    setsockopt(socket->fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  } else {
    unlink(name->path.c_str());
  }
  if (bind(socket->fd(), name->get(), name->size) != 0 ||
      listen(socket->fd(), SOMAXCONN) != 0) {
    return Failed(absl::StrCat("cannot listen on ", address));
  }
  return socket;
}

absl::StatusOr<Socket> Accept(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.fd() < 0) return Failed("accept");
  const absl::Status tuned = Tune(socket);
  if (!tuned.ok()) return tuned;
  return socket;
}

absl::StatusOr<Socket> ConnectTo(absl::string_view address) {
  const auto name = Parse(address);
  if (!name.ok()) return name.status();
  auto socket = Open(*name);
  if (!socket.ok()) return socket;
  if (connect(socket->fd(), name->get(), name->size) != 0) {
    return Failed(absl::StrCat("cannot connect to ", address));
  }
  return socket;
}

int LocalPort(const Socket& socket) {
  sockaddr_in in = {};
  socklen_t size = sizeof(in);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&in), &size) != 0 ||
      in.sin_family != AF_INET) {
    return 0;
  }
  return ntohs(in.sin_port);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMaxBatch = 1 << 20;

// The bytes of an address, and of its upper half.
constexpr uint32_t kFullBytes = 16;
constexpr uint32_t kUpperBytes = 8;

// How a connection begins; both ends are on one machine.
struct Hello {
  uint32_t addresses;
  uint32_t width;
};

absl::Status Ended(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(
      what, ": ", errno == 0 ? "the other end is gone" : strerror(errno)));
}

// Moves what it can of `size` bytes. -1: nothing now; 0: the end, or an error.
template <typename Call>
ssize_t Try(Call call) {
  errno = 0;
  const ssize_t moved = call();
  if (moved >= 0) return moved;
  return errno == EAGAIN || errno == EINTR ? -1 : 0;
}

// All `size` bytes; false at the end of the connection, or an error.
bool ReadAll(int fd, char* to, size_t size, Waiting waiting) {
  const int flags = waiting == Waiting::kBlock ? MSG_WAITALL : MSG_DONTWAIT;
  while (size > 0) {
    const ssize_t got = Try([&] { return recv(fd, to, size, flags); });
    if (got == 0) return false;
    if (got < 0) continue;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const char* from, size_t size) {
  while (size > 0) {
    const ssize_t put = Try([&] { return send(fd, from, size, MSG_NOSIGNAL); });
    if (put == 0) return false;
    if (put < 0) continue;
    from += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

absl::string_view BytesOf(const client::Batch& batch) {
  return batch.addresses_v6.empty() ? batch.upper_halves_v6
                                    : batch.addresses_v6;
}

}  // namespace

Answerer AnswersOf(const Fib& fib) {
  const Kernel& kernel = *AvailableKernels().front();
  return
      [&](size_t width, const char* addresses, size_t count, char* next_hops) {
        if (width == kUpperBytes) {
          fib.LookupUpper(addresses, count, next_hops, kernel);
        } else {
          fib.Lookup(addresses, count, next_hops, kernel);
        }
      };
}

absl::Status ServeExchange(const Socket& socket, const Answerer& answerer,
                           Waiting waiting) {
  Hello hello;
  if (!ReadAll(socket.fd(), reinterpret_cast<char*>(&hello), sizeof(hello),
               waiting)) {
    return absl::OkStatus();  // a client tried the port and left
  }
  if ((hello.width != kFullBytes && hello.width != kUpperBytes) ||
      hello.addresses == 0 || hello.addresses > kMaxBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello of ", hello.addresses, " addresses of ",
                     hello.width, " bytes"));
  }
  std::vector<char> request(size_t{hello.addresses} * hello.width);
  std::vector<char> reply(size_t{hello.addresses} * sizeof(NextHopId));
  while (ReadAll(socket.fd(), request.data(), request.size(), waiting)) {
    answerer(hello.width, request.data(), hello.addresses, reply.data());
    if (!WriteAll(socket.fd(), reply.data(), reply.size())) {
      return Ended("while replying");
    }
  }
  return absl::OkStatus();
}

ExchangeClient::ExchangeClient(Socket socket, const client::Trace& trace,
                               Waiting waiting)
    : socket_(std::move(socket)),
      trace_(&trace),
      waiting_(waiting),
      request_bytes_(BytesOf(trace.Get(0)).size()),
      reply_bytes_(trace.batch_size() * sizeof(NextHopId)) {}

absl::StatusOr<ExchangeClient> ExchangeClient::Start(Socket socket,
                                                     const client::Trace& trace,
                                                     Waiting waiting) {
  const auto addresses = static_cast<uint32_t>(trace.batch_size());
  const Hello hello = {
      .addresses = addresses,
      .width = static_cast<uint32_t>(BytesOf(trace.Get(0)).size()) / addresses};
  if (!WriteAll(socket.fd(), reinterpret_cast<const char*>(&hello),
                sizeof(hello))) {
    return Ended("while saying hello");
  }
  return ExchangeClient(std::move(socket), trace, waiting);
}

const char* ExchangeClient::Request(size_t index) const {
  return BytesOf(trace_->Get(index)).data();
}

absl::Status ExchangeClient::Ask(size_t index, char* next_hops) {
  if (!WriteAll(socket_.fd(), Request(index), request_bytes_) ||
      !ReadAll(socket_.fd(), next_hops, reply_bytes_, waiting_)) {
    return Ended("while asking");
  }
  return absl::OkStatus();
}

absl::Status ExchangeClient::Check(const std::vector<NextHopId>& expected) {
  const size_t batch = trace_->batch_size();
  std::vector<NextHopId> got(batch);
  for (size_t i = 0; i < trace_->batches(); ++i) {
    const absl::Status status = Ask(i, reinterpret_cast<char*>(got.data()));
    if (!status.ok()) return status;
    for (size_t j = 0; j < batch; ++j) {
      const NextHopId right = expected[i * batch + j];
      if (got[j] == right) continue;
      return absl::DataLossError(absl::StrCat("the answer to address ",
                                              i * batch + j, " is ", got[j],
                                              ", not ", right));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ExchangeResult> ExchangeClient::Run(size_t depth,
                                                   absl::Duration duration) {
  return depth == 1 ? PingPong(duration) : Pipelined(depth, duration);
}

absl::StatusOr<ExchangeResult> ExchangeClient::PingPong(
    absl::Duration duration) {
  ExchangeResult result;
  std::vector<char> reply(reply_bytes_);
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + absl::ToChronoNanoseconds(duration);
  Clock::time_point now = start;
  do {
    const absl::Status status = Ask(result.batches, reply.data());
    if (!status.ok()) return status;
    const Clock::time_point answered = Clock::now();
    result.latency.Add(absl::FromChrono(answered - now));
    now = answered;
    ++result.batches;
  } while (now < end);
  result.elapsed = absl::FromChrono(now - start);
  return result;
}

// Never waits in a write alone: the server may wait for this end to read.
absl::StatusOr<ExchangeResult> ExchangeClient::Pipelined(
    size_t depth, absl::Duration duration) {
  ExchangeResult result;
  std::vector<char> reply(reply_bytes_);
  std::deque<Clock::time_point> sent;  // of each batch on the way
  const char* request = nullptr;
  size_t put = request_bytes_, got = 0;  // of the request and reply under way
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + absl::ToChronoNanoseconds(duration);
  Clock::time_point now = start;
  while (now < end || !sent.empty()) {
    if (put == request_bytes_ && sent.size() < depth && now < end) {
      request = Request(result.batches + sent.size());
      put = 0;
      sent.push_back(now);
    }
    ssize_t out = -1, in = -1;
    if (put < request_bytes_) {
      out = Try([&] {
        return send(socket_.fd(), request + put, request_bytes_ - put,
                    MSG_DONTWAIT | MSG_NOSIGNAL);
      });
      if (out == 0) return Ended("while sending");
      if (out > 0) put += static_cast<size_t>(out);
    }
    // While more can be sent, send: a reply will still be there then.
    if (out > 0 && sent.size() < depth && now < end) continue;
    in = Try([&] {
      return recv(socket_.fd(), reply.data() + got, reply_bytes_ - got,
                  MSG_DONTWAIT);
    });
    if (in == 0) return Ended("while receiving");
    if (in > 0) got += static_cast<size_t>(in);
    if (got == reply_bytes_) {
      now = Clock::now();
      result.latency.Add(absl::FromChrono(now - sent.front()));
      sent.pop_front();
      got = 0;
      ++result.batches;
    }
    if (out < 0 && in < 0 && waiting_ == Waiting::kBlock) {
      const bool more = put < request_bytes_;
      pollfd one = {.fd = socket_.fd(),
                    .events = static_cast<short>(POLLIN | (more ? POLLOUT : 0)),
                    .revents = 0};
      poll(&one, 1, -1);
    }
  }
  result.elapsed = absl::FromChrono(now - start);
  return result;
}

}  // namespace planb::rpc
