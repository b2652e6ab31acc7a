// SPDX-License-Identifier: Apache-2.0

// Undoes gzip (zlib) and bzip2 (libbz2) compression on the way, recognized by
// content and never by name.

#ifndef PLANB_LPM_IO_DECOMPRESS_H_
#define PLANB_LPM_IO_DECOMPRESS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lpm/io/byte_source.h"

namespace planb {

// Returns the uncompressed bytes of `source`: it starts with a gzip or a
// bzip2 header, or is handed through as it is. Members that follow each other,
// as from `cat a.gz b.gz`, are read as one stream. Bytes after the last member
// that start no other make the stream break off there (DATA_LOSS).
// Memory: fixed, about 100 KiB for gzip and 4 MiB for bzip2.
// Errors: those of source->Read for its first bytes.
absl::StatusOr<std::unique_ptr<ByteSource>> Decompress(
    std::unique_ptr<ByteSource> source);

}  // namespace planb

#endif  // PLANB_LPM_IO_DECOMPRESS_H_
