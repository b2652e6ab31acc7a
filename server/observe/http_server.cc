// SPDX-License-Identifier: Apache-2.0

#include "server/observe/http_server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <thread>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/observe/http_socket.h"

namespace planb::server {
namespace {

// How often the server checks for what causes no event: connections that ended
// without a request, and file descriptors that are free again.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(200);

constexpr int kEveryMethod =
    EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
    EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
    EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH;

void Send(evhttp_request* request, const HttpReply& reply) {
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  const auto set = [headers](const char* name, const std::string& value) {
    evhttp_add_header(headers, name, value.c_str());
  };
  set("Content-Type", reply.content_type);
  set("Content-Length", absl::StrCat(reply.body.size()));
  set("Cache-Control", "no-store");
  set("Connection", "close");
  // Browsers must not guess another type from the content.
  set("X-Content-Type-Options", "nosniff");
  set("Content-Security-Policy",
      absl::StrCat("default-src 'none'; img-src data:; ", reply.sources,
                   "base-uri 'none'; form-action 'none'; "
                   "frame-ancestors 'none'"));
  if (reply.status == 405) set("Allow", "GET, HEAD");
  if (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD) {
    evbuffer_add(evhttp_request_get_output_buffer(request), reply.body.data(),
                 reply.body.size());
  }
  evhttp_send_reply(request, reply.status, nullptr, nullptr);
}

// Only the thread of the loop uses libevent's objects, except in the
// constructor, before the thread starts. The destructor stops the loop through
// an eventfd.
class Impl final : public HttpServer {
 public:
  Impl(int socket, Pages pages, HttpLimits limits)
      : pages_(std::move(pages)),
        limits_(limits),
        port_(PortOf(socket)),
        base_(event_base_new()),
        stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    http_ = base_ == nullptr ? nullptr : evhttp_new(base_);
    ABSL_RAW_CHECK(http_ != nullptr && stop_ >= 0, "no memory for HTTP");
    evhttp_set_allowed_methods(http_, kEveryMethod);
    evhttp_set_max_headers_size(http_, limits.max_header_bytes);
    evhttp_set_max_body_size(http_, limits.max_body_bytes);
    evhttp_set_bevcb(http_, &Impl::Connect, this);
    evhttp_set_gencb(http_, &Impl::Answer, this);
    listener_ = evconnlistener_new(
        base_, nullptr, nullptr, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
        /*backlog=*/0, socket);
    ABSL_RAW_CHECK(listener_ != nullptr, "no memory for HTTP");
    evhttp_bind_listener(http_, listener_);
    evconnlistener_set_error_cb(listener_, &Impl::NoFiles);
    look_ = event_new(base_, -1, EV_PERSIST, &Impl::Look, this);
    const timeval period = absl::ToTimeval(kSweepInterval);
    event_add(look_, &period);
    stopped_ = event_new(base_, stop_, EV_READ, &Impl::Stop, this);
    event_add(stopped_, nullptr);
    thread_ = std::thread([this] { Loop(); });
  }

  ~Impl() override {
    const uint64_t one = 1;
    ABSL_RAW_CHECK(write(stop_, &one, sizeof(one)) == sizeof(one), "eventfd");
    thread_.join();
    close(stop_);
  }

  int port() const override { return port_; }

 private:
  // One connection. It counts until evhttp reports its end. evhttp reports only
  // connections that made a request. Others count until Look() finds them
  // ended, or until their deadline. evhttp and this object both hold a
  // reference to the socket; the last one closes it.
  struct Connection {
    Impl* server;
    bufferevent* socket;
    event* deadline;
  };

  static Impl* Self(void* self) { return static_cast<Impl*>(self); }

  void Loop() {
    // A client that closes during a write must not end the process.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    event_base_dispatch(base_);
    stopping_ = true;
    evhttp_free(http_);  // and the listener, and all connections
    while (!open_.empty()) Release(open_.begin()->second);
    event_base_loop(base_, EVLOOP_NONBLOCK);
    event_free(look_);
    event_free(stopped_);
    event_base_free(base_);
  }

  static void Stop(evutil_socket_t, short, void* self) {
    event_base_loopbreak(Self(self)->base_);
  }

  static bufferevent* Connect(event_base* base, void* self) {
    Impl* const server = Self(self);
    bufferevent* const socket =
        bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    ABSL_RAW_CHECK(socket != nullptr, "no memory for HTTP");
    bufferevent_incref(socket);
    auto* const connection = new Connection{server, socket, nullptr};
    connection->deadline = evtimer_new(base, &Impl::Expire, connection);
    const timeval lifetime = absl::ToTimeval(server->limits_.max_lifetime);
    evtimer_add(connection->deadline, &lifetime);
    server->open_[socket] = connection;
    if (server->open_.size() >= server->limits_.max_connections) {
      evconnlistener_disable(server->listener_);
    }
    return socket;
  }

  static void Expire(evutil_socket_t, short, void* context) {
    auto* const connection = static_cast<Connection*>(context);
    // To evhttp this looks as if the client had closed.
    shutdown(bufferevent_getfd(connection->socket), SHUT_RDWR);
    connection->server->Release(connection);
  }

  static void Ended(evhttp_connection* ended, void* self) {
    Impl* const server = Self(self);
    const auto it =
        server->open_.find(evhttp_connection_get_bufferevent(ended));
    if (it != server->open_.end()) server->Release(it->second);
  }

  void Release(Connection* connection) {
    open_.erase(connection->socket);
    event_free(connection->deadline);
    bufferevent_decref(connection->socket);
    delete connection;
    Resume();
  }

  // accept() failed, for lack of file descriptors or memory. Retrying at once
  // would spin. Look() enables the listener again.
  static void NoFiles(evconnlistener* listener, void*) {
    evconnlistener_disable(listener);
  }

  void Resume() {
    if (stopping_) return;
    if (open_.size() < limits_.max_connections) {
      evconnlistener_enable(listener_);
    }
  }

  // evhttp sets its callbacks when it gets the socket and clears them when it
  // frees the connection.
  static bool HasEnded(bufferevent* socket) {
    bufferevent_event_cb event = nullptr;
    bufferevent_getcb(socket, nullptr, nullptr, &event, nullptr);
    return event == nullptr;
  }

  static void Look(evutil_socket_t, short, void* self) {
    Impl* const server = Self(self);
    for (auto it = server->open_.begin(); it != server->open_.end();) {
      const auto [socket, connection] = *it++;
      if (HasEnded(socket)) server->Release(connection);
    }
    server->Resume();
  }

  static void Answer(evhttp_request* request, void* self) {
    evhttp_connection_set_closecb(evhttp_request_get_connection(request),
                                  &Impl::Ended, self);
    Send(request, Self(self)->ReplyTo(request));
  }

  HttpReply ReplyTo(evhttp_request* request) const {
    const evhttp_uri* const uri = evhttp_request_get_evhttp_uri(request);
    const char* const path =
        uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
    const auto page = pages_.find(path == nullptr ? "" : path);
    if (page == pages_.end()) return {.status = 404, .body = "not found\n"};
    const evhttp_cmd_type method = evhttp_request_get_command(request);
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD) {
      return {.status = 405, .body = "only GET and HEAD\n"};
    }
    const char* const accept =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Accept");
    try {
      return page->second(accept == nullptr ? "" : accept);
    } catch (const std::bad_alloc&) {
      // A page must not end a process: lookups need no memory.
      return {.status = 503, .body = "not enough memory\n"};
    }
  }

  const Pages pages_;
  const HttpLimits limits_;
  const int port_;
  event_base* base_;
  const int stop_;  // an eventfd, written by the destructor
  evhttp* http_;
  evconnlistener* listener_;
  event* look_;
  event* stopped_;
  absl::flat_hash_map<bufferevent*, Connection*> open_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& address, Pages pages, HttpLimits limits) {
  const absl::StatusOr<int> socket = ListenHttp(address);
  if (!socket.ok()) return socket.status();
  return std::make_unique<Impl>(*socket, std::move(pages), limits);
}

}  // namespace planb::server
