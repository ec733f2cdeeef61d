#include "common/base/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace poolmark {
namespace {

std::string ToHex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(size * 2);
  for (size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
}
Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::Hex() {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  return ToHex(digest.data(), digest.size());
}

std::string Sha256Hex(std::string_view bytes, size_t length) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Hex().substr(0, length);
}

Result<std::string> Sha256OfFile(const std::string& path) {
  // O_NONBLOCK: a FIFO is refused below, not waited for.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FromErrno(path, "opening", errno);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return InvalidInput(path, "is no regular file");
  }
  Sha256 hash;
  std::vector<char> buffer(1 << 16);
  ssize_t got;
  while ((got = read(fd, buffer.data(), buffer.size())) > 0)
    hash.Update({buffer.data(), static_cast<size_t>(got)});
  int error = errno;
  close(fd);
  if (got < 0) return FromErrno(path, "reading", error);
  return hash.Hex();
}

std::string RandomHex(size_t bytes) {
  std::vector<unsigned char> buffer(bytes);
  RAND_bytes(buffer.data(), static_cast<int>(bytes));
  return ToHex(buffer.data(), bytes);
}

std::string NewUuid() {
  std::array<unsigned char, 16> bytes{};
  RAND_bytes(bytes.data(), 16);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string hex = ToHex(bytes.data(), 16);
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

}  // namespace poolmark
