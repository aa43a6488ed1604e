// A small HTTP/1.1 server on 127.0.0.1: one thread waits for requests, a few answer them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "codec/result.h"
#include "tools/web/http_request.h"

namespace varve::tools {

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;
  bool dropped = false;  ///< nobody waits for it: the connection is closed without an answer
};

/// Whether the answer is still wanted: false once the client is gone or the server ends. Cheap.
using StillWanted = std::function<bool()>;
/// Called from several threads at once.
using HttpHandler = std::function<HttpResponse(const HttpRequest& request, const StillWanted& wanted)>;

/// Listens from its creation on. Other machines cannot reach it. Clients that send or take nothing lose their
/// connections after a while, and at once when too many are open.
class HttpServer {
 public:
  /// `port` 0: any. EADDRINUSE and others with a sentence.
  static Result<std::unique_ptr<HttpServer>> listen(uint16_t port);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const { return port_; }
  /// Answers until `stop`, a descriptor, can be read.
  Status serve(const HttpHandler& handler, int stop);

 private:
  struct Connection;
  HttpServer(int listener, int wake, uint16_t port);
  void accept_all();
  void receive(Connection& connection);
  void drop_late_ones();
  void take_returned();
  void answer_queued(const HttpHandler& handler);
  bool answer(Connection& connection, const HttpHandler& handler);
  bool send_all(int descriptor, std::string_view text);

  const int listener_, wake_;
  uint16_t port_;
  std::vector<std::unique_ptr<Connection>> waiting_;  ///< for a request: of the serving thread alone

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable queued_;
  std::deque<std::unique_ptr<Connection>> queue_;      ///< a whole head was received
  std::vector<std::unique_ptr<Connection>> returned_;  ///< answered, and kept open
  size_t in_work_ = 0;                                 ///< queued or being answered
  std::atomic<bool> stopping_{false};
};

/// As it goes out, headers that keep pages of others away included.
std::string head_of(const HttpResponse& response, bool keep_alive);

}  // namespace varve::tools
