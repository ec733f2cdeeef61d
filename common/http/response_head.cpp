#include "common/http/response_head.h"

namespace poolmark::http {
namespace {

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

// A header value that cannot split the answer.
std::string Clean(std::string_view value) {
  std::string result(value);
  for (char& c : result) {
    if (c == '\r' || c == '\n' || c == '\0') c = ' ';
  }
  return result;
}

}  // namespace

std::string ResponseHead(int status, std::string_view content_type, const Headers& extra, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head += Reason(status);
  head += "\r\n";
  if (!content_type.empty()) head += "Content-Type: " + Clean(content_type) + "\r\n";
  for (const auto& [name, value] : extra) head += Clean(name) + ": " + Clean(value) + "\r\n";
  if (!keep_alive) head += "Connection: close\r\n";
  return head;
}

}  // namespace poolmark::http
