#include "common/base/zstd_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"

namespace poolmark {

struct ZstdWriter::State {
  std::string path;
  int fd = -1;
  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::vector<char> buffer = std::vector<char>(ZSTD_CStreamOutSize());
  ~State() {
    if (fd >= 0) close(fd);
    ZSTD_freeCCtx(context);
  }
  Status Push(std::string_view bytes, ZSTD_EndDirective mode) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (;;) {
      ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
      size_t left = ZSTD_compressStream2(context, &out, &in, mode);
      if (ZSTD_isError(left)) return Internal(path, absl::StrCat("compressing: ", ZSTD_getErrorName(left)));
      for (size_t done = 0; done < out.pos;) {
        ssize_t wrote = write(fd, buffer.data() + done, out.pos - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return FromErrno(path, "writing", errno);
        done += static_cast<size_t>(wrote);
      }
      bool finished = mode == ZSTD_e_continue ? in.pos == in.size : left == 0;
      if (finished) return absl::OkStatus();
    }
  }
};

ZstdWriter::ZstdWriter() : state_(std::make_unique<State>()) {}
ZstdWriter::~ZstdWriter() = default;

Result<std::unique_ptr<ZstdWriter>> ZstdWriter::Create(const std::string& path, int level) {
  std::unique_ptr<ZstdWriter> writer(new ZstdWriter);
  writer->state_->path = path;
  writer->state_->fd =
      open((path + ".tmp").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (writer->state_->fd < 0) return FromErrno(path + ".tmp", "creating", errno);
  ZSTD_CCtx_setParameter(writer->state_->context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(writer->state_->context, ZSTD_c_checksumFlag, 1);
  return writer;
}

Status ZstdWriter::Write(std::string_view bytes) {
  return state_->Push(bytes, ZSTD_e_continue);
}
Status ZstdWriter::Flush() {
  return state_->Push({}, ZSTD_e_flush);
}

Status ZstdWriter::Finish() {
  POOLMARK_RETURN_IF_ERROR(state_->Push({}, ZSTD_e_end));
  if (fsync(state_->fd) != 0) return FromErrno(state_->path, "syncing", errno);
  close(state_->fd);
  state_->fd = -1;
  return RenameDurably(state_->path + ".tmp", state_->path);
}

Status ZstdWriter::KeepPartial(const std::string& path) {
  if (state_->fd >= 0) close(state_->fd);
  state_->fd = -1;
  return RenameDurably(state_->path + ".tmp", path);
}

struct LineReader::State {
  std::string path;
  int fd = -1;
  bool compressed = false;
  size_t max_line = 0;
  uint64_t line = 0;
  bool end_of_file = false;
  size_t frame_left = 0;  // what zstd still expects; 0 between frames
  ZSTD_DCtx* context = ZSTD_createDCtx();
  std::vector<char> raw = std::vector<char>(1 << 17);
  ZSTD_inBuffer in{nullptr, 0, 0};
  std::string text;  // decoded, not yet returned
  size_t at = 0;
  ~State() {
    if (fd >= 0) close(fd);
    ZSTD_freeDCtx(context);
  }
  std::string Where() const { return absl::StrCat(path, ":", line + 1); }

  // Appends more decoded text, or sets end_of_file.
  Status Fill() {
    if (at > (1u << 20) || at == text.size()) {
      text.erase(0, at);
      at = 0;
    }
    size_t before = text.size();
    while (text.size() == before && !end_of_file) {
      if (in.pos == in.size) {
        ssize_t got = read(fd, raw.data(), raw.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return FromErrno(path, "reading", errno);
        if (got == 0) {
          end_of_file = true;
          if (frame_left != 0) return InvalidInput(Where(), "the compressed stream ends early");
          return absl::OkStatus();
        }
        in = {raw.data(), static_cast<size_t>(got), 0};
      }
      if (!compressed) {
        text.append(raw.data() + in.pos, in.size - in.pos);
        in.pos = in.size;
        continue;
      }
      char decoded[1 << 16];
      ZSTD_outBuffer out{decoded, sizeof decoded, 0};
      frame_left = ZSTD_decompressStream(context, &out, &in);
      if (ZSTD_isError(frame_left)) {
        std::string name = ZSTD_getErrorName(frame_left);
        frame_left = 0;
        return InvalidInput(Where(), absl::StrCat("not a valid zstd stream: ", name));
      }
      text.append(decoded, out.pos);
    }
    return absl::OkStatus();
  }
};

LineReader::LineReader() : state_(std::make_unique<State>()) {}
LineReader::~LineReader() = default;

Result<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path, size_t max_line) {
  std::unique_ptr<LineReader> reader(new LineReader);
  State& state = *reader->state_;
  state.path = path;
  state.max_line = max_line;
  // Not waiting: opening a pipe would, for whoever writes it.
  state.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (state.fd < 0) return FromErrno(path, "opening", errno);
  struct stat status = {};
  if (fstat(state.fd, &status) != 0) return FromErrno(path, "reading", errno);
  if (!S_ISREG(status.st_mode))
    return InvalidInput(path, S_ISDIR(status.st_mode) ? "is a directory" : "is no regular file",
                        "give a file: what comes from a pipe must be written to one first");
  unsigned char magic[4] = {};
  ssize_t got = pread(state.fd, magic, 4, 0);
  if (got < 0) return FromErrno(path, "reading", errno);
  static constexpr unsigned char kZstdMagic[4] = {0x28, 0xb5, 0x2f, 0xfd};
  bool named = path.size() > 4 && path.compare(path.size() - 4, 4, ".zst") == 0;
  state.compressed = named || (got == 4 && std::memcmp(magic, kZstdMagic, 4) == 0);
  if (named && got == 0) return InvalidInput(path, "empty, a zstd stream is needed");
  return reader;
}

Result<bool> LineReader::Next(std::string* line) {
  State& state = *state_;
  size_t searched = state.at;
  for (;;) {
    size_t end = state.text.find('\n', searched);
    if (end != std::string::npos) {
      line->assign(state.text, state.at, end - state.at);
      state.at = end + 1;
      ++state.line;
      return true;
    }
    if (state.text.size() - state.at > state.max_line) {
      return InvalidInput(state.Where(), absl::StrCat("line longer than ", state.max_line, " bytes"));
    }
    if (state.end_of_file) {
      if (state.at == state.text.size()) return false;
      line->assign(state.text, state.at);
      state.at = state.text.size();
      ++state.line;
      return true;
    }
    size_t pending = state.text.size() - state.at;
    POOLMARK_RETURN_IF_ERROR(state.Fill());
    searched = state.at + pending;
  }
}

uint64_t LineReader::line_number() const {
  return state_->line;
}

}  // namespace poolmark
