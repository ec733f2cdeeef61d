// The fast way to read a record: for lines exactly as AppendRecord writes them, fields in its order and texts
// in plain ASCII. A report reads a million of them. Whatever else a line may be is the full parser's to read
// or to refuse (record_codec.h calls this one first), so that both give the same on every input. Pure.
#pragma once
#include <string_view>

#include "common/load/record.h"

namespace poolmark::load {

// False: not in that form; the record holds anything then. Keeps the record's memory.
bool ScanRecord(std::string_view line, RequestRecord* record);

}  // namespace poolmark::load
