#include "tests/support/front.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace poolmark::test {
namespace {

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::abort();
}

SSL_CTX* MakeContext(const std::string& ca_file) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("front"), -1,
                             -1, 0);
  X509_set_issuer_name(certificate, name);
  for (const auto& [nid, value] : {std::pair(NID_basic_constraints, "critical,CA:TRUE"),
                                   std::pair(NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1")}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(certificate, key, EVP_sha256());
  if (FILE* file = std::fopen(ca_file.c_str(), "w")) {
    PEM_write_X509(file, certificate);
    std::fclose(file);
  } else {
    Die("Front: the certificate's file");
  }
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return context;
}

void NoDelay(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

struct Front::State {
  std::chrono::milliseconds before_handshake{0};
  uint16_t backend = 0;
  uint16_t port = 0;
  int listener = -1;
  SSL_CTX* context = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<int> records{0};
  std::mutex mutex;  // guards workers and open
  std::vector<std::thread> workers;
  std::vector<int> open;
  std::thread acceptor;

  void Relay(int client) {
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(backend);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      NoDelay(server);
      SSL* ssl = nullptr;
      bool good = true;
      if (context != nullptr) {
        std::this_thread::sleep_for(before_handshake);
        ssl = SSL_new(context);
        SSL_set_fd(ssl, client);
        good = SSL_accept(ssl) == 1;
      }
      if (good) Shuttle(client, server, ssl);
      SSL_free(ssl);
    }
    close(server);
  }

  // Blocking sockets, read only when poll says so; TLS records that are already decrypted come first.
  void Shuttle(int client, int server, SSL* ssl) {
    char buffer[65536];
    for (;;) {
      pollfd items[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if ((ssl == nullptr || SSL_pending(ssl) == 0) && poll(items, 2, -1) <= 0) return;
      if ((items[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 ||
          (ssl != nullptr && SSL_pending(ssl) > 0)) {
        const ssize_t n =
            ssl == nullptr ? recv(client, buffer, sizeof buffer, 0) : SSL_read(ssl, buffer, sizeof buffer);
        // Before the server can answer. SSL_read gives what is left of one record.
        if (ssl != nullptr && n > 0) ++records;
        if (n <= 0 || !WriteAll(server, std::string_view(buffer, static_cast<size_t>(n)))) return;
      }
      if ((items[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        const ssize_t n = recv(server, buffer, sizeof buffer, 0);
        if (n <= 0) return;
        if (ssl == nullptr) {
          if (!WriteAll(client, std::string_view(buffer, static_cast<size_t>(n)))) return;
        } else {
          for (ssize_t done = 0; done < n;) {
            const int k = SSL_write(ssl, buffer + done, static_cast<int>(n - done));
            if (k <= 0) return;
            done += k;
          }
        }
      }
    }
  }
};

Front::Front(uint16_t backend, bool tls, const std::string& ca_file, uint16_t port,
             std::chrono::milliseconds before_handshake)
    : state_(std::make_unique<State>()) {
  State* const state = state_.get();
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  state->backend = backend;
  state->before_handshake = before_handshake;
  if (tls) state->context = MakeContext(ca_file);
  state->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(state->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(state->listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(state->listener, 1024) != 0)
    Die("Front");
  getsockname(state->listener, reinterpret_cast<sockaddr*>(&address), &length);
  state->port = ntohs(address.sin_port);
  state->acceptor = std::thread([state] {
    while (!state->stop) {
      const int client = accept4(state->listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      NoDelay(client);
      const std::lock_guard lock(state->mutex);
      state->open.push_back(client);
      state->workers.emplace_back([state, client] {
        state->Relay(client);
        const std::lock_guard guard(state->mutex);
        std::erase(state->open, client);
        close(client);
      });
    }
  });
}

Front::~Front() {
  state_->stop = true;
  shutdown(state_->listener, SHUT_RDWR);
  state_->acceptor.join();
  close(state_->listener);
  {
    const std::lock_guard lock(state_->mutex);
    for (const int fd : state_->open) shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& worker : state_->workers) worker.join();
  SSL_CTX_free(state_->context);
}

uint16_t Front::port() const {
  return state_->port;
}
int Front::records() const {
  return state_->records;
}

}  // namespace poolmark::test
