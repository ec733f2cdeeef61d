// What the streams are connected to, and safe text for them. Data goes to stdout, progress and errors to
// stderr. Colours and moving lines only on a terminal, without NO_COLOR (no-color.org) and with a TERM that
// is not "dumb".
#pragma once
#include <string>
#include <string_view>

namespace poolmark::cli {

bool StdoutIsTerminal();
bool StderrIsTerminal();
bool UseColour();  // on stdout
// Columns of the terminal on stderr, 80 where unknown.
int TerminalWidth();

enum class Colour { kNone, kGreen, kYellow, kRed, kDim, kBold };
// Unchanged without UseColour().
std::string Coloured(std::string_view text, Colour colour);

// Control characters (also the ESC of colours and cursor moves) become \xNN: names and logs come from
// elsewhere. Keeps line feeds and tabs when `lines`.
std::string Printable(std::string_view text, bool lines = false);

// Writes to stdout. When nobody reads it any more (a closed pipe) the program ends quietly, as SIGPIPE would
// do.
void WriteOut(std::string_view text);
void WriteErr(std::string_view text);
// As WriteOut, but what cannot be written does not end a program that has more to do than to print it:
// FinishOutput tells.
void ShowOut(std::string_view text);
// The exit code to end with: none of success where ShowOut or a standard stream could not write all, which is
// said, but for a pipe that nobody reads any more.
int FinishOutput(int exit_code);

}  // namespace poolmark::cli
