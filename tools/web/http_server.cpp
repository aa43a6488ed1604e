#include "tools/web/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace varve::tools {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kWorkers = 4;
constexpr size_t kMostConnections = 64;
constexpr int kBacklog = 64;
constexpr seconds kHeadTime{10};  ///< from a connection's start, or a request's first byte, to its whole head
constexpr seconds kIdleTime{60};  ///< between requests
constexpr seconds kSendTime{20};  ///< without the client taking anything
constexpr milliseconds kTick{500};

std::string_view reason_of(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 15> kReasons{{{200, "OK"},
                                                                       {400, "Bad Request"},
                                                                       {401, "Unauthorized"},
                                                                       {403, "Forbidden"},
                                                                       {404, "Not Found"},
                                                                       {405, "Method Not Allowed"},
                                                                       {408, "Request Timeout"},
                                                                       {409, "Conflict"},
                                                                       {413, "Content Too Large"},
                                                                       {414, "URI Too Long"},
                                                                       {431, "Request Header Fields Too Large"},
                                                                       {500, "Internal Server Error"},
                                                                       {501, "Not Implemented"},
                                                                       {503, "Service Unavailable"},
                                                                       {505, "HTTP Version Not Supported"}}};
  const auto found = std::ranges::find(kReasons, status, [](const auto& item) { return item.first; });
  return found == kReasons.end() ? "Error" : found->second;
}

HttpResponse refusal(int status, const std::string& text) {
  HttpResponse response{.status = status, .body = text + "\n", .fields = {}};
  if (status == 405) {
    response.fields.emplace_back("Allow", "GET");
  }
  return response;
}

Error failure(std::string_view what) {
  return {errno, fmt::format("{}: {}", what, std::generic_category().message(errno))};
}

/// Best effort: the client may not be there.
void send_once(int descriptor, const HttpResponse& response) {
  const std::string text = head_of(response, false) + response.body;
  static_cast<void>(::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace

struct HttpServer::Connection {
  explicit Connection(int from) : descriptor(from), deadline(Clock::now() + kHeadTime) {}
  ~Connection() { ::close(descriptor); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const int descriptor;
  std::string received;
  Clock::time_point deadline;
  bool ended = false;  ///< nothing more is to be read from it
};

std::string head_of(const HttpResponse& response, bool keep_alive) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
      "Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n"
      "Cross-Origin-Opener-Policy: same-origin\r\n"
      "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
      response.status, reason_of(response.status), response.type, response.body.size(),
      keep_alive ? "keep-alive" : "close");
  for (const auto& [name, value] : response.fields) {
    text += fmt::format("{}: {}\r\n", name, value);
  }
  return text + "\r\n";
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(uint16_t port) {
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  auto server = std::unique_ptr<HttpServer>(new HttpServer(listener, wake, port));
  if (wake < 0 || listener < 0) {
    return failure("cannot make a socket");
  }
  const int yes = 1;  // a server that ended a moment ago must not keep its port
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, kBacklog) != 0 || ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    const int code = errno;
    return Error{code, fmt::format("cannot listen on 127.0.0.1:{}: {}; --port 0 takes one that is free", port,
                                   std::generic_category().message(code))};
  }
  server->port_ = ntohs(address.sin_port);
  return server;
}

HttpServer::HttpServer(int listener, int wake, uint16_t port) : listener_(listener), wake_(wake), port_(port) {}

HttpServer::~HttpServer() {
  for (const int descriptor : {listener_, wake_}) {
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }
}

Status HttpServer::serve(const HttpHandler& handler, int stop) {
  std::vector<std::thread> workers;
  for (size_t i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&] { answer_queued(handler); });
  }
  Status status;
  for (;;) {
    std::vector<pollfd> events{{stop, POLLIN, 0}, {listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    for (const auto& connection : waiting_) {
      events.push_back({connection->descriptor, POLLIN, 0});
    }
    if (::poll(events.data(), events.size(), static_cast<int>(kTick.count())) < 0 && errno != EINTR) {
      status = failure("cannot wait for requests");
      break;
    }
    if (events[0].revents != 0) {
      break;
    }
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (events[i + 3].revents != 0) {
        receive(*waiting_[i]);
      }
    }
    std::erase_if(waiting_, [](const auto& connection) { return !connection || connection->ended; });
    drop_late_ones();
    take_returned();
    if (events[1].revents != 0) {
      accept_all();
    }
    const std::lock_guard lock(mutex_);
    for (auto& connection : waiting_) {
      if (head_length(connection->received) > 0) {
        queue_.push_back(std::move(connection));
        ++in_work_;
        queued_.notify_one();
      }
    }
    std::erase(waiting_, nullptr);
  }
  stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    queued_.notify_all();
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  return status;
}

void HttpServer::accept_all() {
  for (;;) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      return;
    }
    const int yes = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    auto connection = std::make_unique<Connection>(descriptor);
    size_t in_work = 0;
    {
      const std::lock_guard lock(mutex_);
      in_work = in_work_ + returned_.size();
    }
    if (in_work + waiting_.size() >= kMostConnections) {
      if (waiting_.empty()) {
        send_once(descriptor, refusal(503, "too many requests are being answered; try again"));
        continue;
      }
      // Whoever has been silent longest makes room.
      waiting_.erase(std::ranges::min_element(waiting_, {}, [](const auto& one) { return one->deadline; }));
    }
    waiting_.push_back(std::move(connection));
  }
}

/// What is there to be read. A head that is too long is refused.
void HttpServer::receive(Connection& connection) {
  std::array<char, 4096> piece{};
  const ssize_t got = ::recv(connection.descriptor, piece.data(), piece.size(), 0);
  if (got <= 0) {
    connection.ended = got == 0 || (errno != EAGAIN && errno != EINTR);
    return;
  }
  if (connection.received.empty()) {
    connection.deadline = Clock::now() + kHeadTime;
  }
  connection.received.append(piece.data(), static_cast<size_t>(got));
  if (head_length(connection.received) == 0 && connection.received.size() > kLongestHead) {
    send_once(connection.descriptor, refusal(431, fmt::format("a head takes at most {} bytes", kLongestHead)));
    connection.ended = true;
  }
}

void HttpServer::drop_late_ones() {
  const auto now = Clock::now();
  std::erase_if(waiting_, [&](const auto& connection) {
    if (connection->deadline > now || head_length(connection->received) > 0) {
      return false;
    }
    if (!connection->received.empty()) {
      send_once(connection->descriptor, refusal(408, "the rest of the request did not come"));
    }
    return true;
  });
}

void HttpServer::take_returned() {
  eventfd_t count = 0;
  ::eventfd_read(wake_, &count);
  const std::lock_guard lock(mutex_);
  for (auto& connection : returned_) {
    waiting_.push_back(std::move(connection));
  }
  returned_.clear();
}

void HttpServer::answer_queued(const HttpHandler& handler) {
  for (;;) {
    std::unique_ptr<Connection> connection;
    {
      std::unique_lock lock(mutex_);
      queued_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) {
        return;
      }
      connection = std::move(queue_.front());
      queue_.pop_front();
    }
    const bool keep = answer(*connection, handler);
    const std::lock_guard lock(mutex_);
    --in_work_;
    if (keep) {
      connection->deadline = Clock::now() + (connection->received.empty() ? kIdleTime : kHeadTime);
      returned_.push_back(std::move(connection));
      ::eventfd_write(wake_, 1);
    }
  }
}

/// One request. Whether the connection stays open.
bool HttpServer::answer(Connection& connection, const HttpHandler& handler) {
  const size_t length = head_length(connection.received);
  const ParsedHead parsed = parse_head(std::string_view(connection.received).substr(0, length));
  connection.received.erase(0, length);
  HttpResponse response;
  if (parsed.status != 200) {
    response = refusal(parsed.status, parsed.problem);
  } else {
    response = handler(parsed.request, [&] {
      char one = 0;
      const ssize_t got = ::recv(connection.descriptor, &one, 1, MSG_PEEK | MSG_DONTWAIT);
      return !stopping_ && (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
    });
  }
  const bool keep = parsed.status == 200 && parsed.request.keep_alive && !stopping_;
  return !response.dropped && send_all(connection.descriptor, head_of(response, keep)) &&
         send_all(connection.descriptor, response.body) && keep;
}

bool HttpServer::send_all(int descriptor, std::string_view text) {
  auto deadline = Clock::now() + kSendTime;
  while (!text.empty() && !stopping_ && Clock::now() < deadline) {
    const ssize_t sent = ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(static_cast<size_t>(sent));
      deadline = Clock::now() + kSendTime;
    } else if (errno == EAGAIN) {
      pollfd event{descriptor, POLLOUT, 0};
      ::poll(&event, 1, static_cast<int>(kTick.count()));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return text.empty();
}

}  // namespace varve::tools
