/* SPDX-License-Identifier: Apache-2.0 */

/* LocalTable (local_table.h) for C and for languages that call C: the library
 * libplanb_local.so. All functions are thread-safe, but for planb_local_close.
 * The library is built of C++ libraries of the system; it throws nothing.
 * A call without the memory or the threads that it needs fails. One with a
 * table that is NULL returns 3 (INVALID_ARGUMENT). In a process that was forked
 * from one with a table, calls return 9 (FAILED_PRECONDITION): nothing follows
 * the table there. */

#ifndef PLANB_CLIENT_LOCAL_TABLE_C_H_
#define PLANB_CLIENT_LOCAL_TABLE_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct planb_local planb_local;

/* What to follow, and how. `size` is the size of this struct as the caller
 * knows it: later versions add fields at the end, which are zero for an older
 * caller. A text may be NULL, and has at most 4,096 bytes. */
typedef struct planb_local_options {
  size_t size;
  /* Such as "unix:///run/planb/planb.sock" or "[::1]:50051". Never NULL. */
  const char* server;
  /* NULL or "" for "default". */
  const char* table;
  /* How long to wait for the whole table. */
  int64_t timeout_ms;
  /* With a value > 0 lookups fail once the server was not heard for so long (it
   * speaks every 5 s at least). */
  int64_t max_staleness_ms;
  /* If one of these is not NULL, the connection has TLS, by files in PEM, which
   * are read once: open another table before a certificate expires. */
  /* The authorities for the server's certificate; NULL or "" for those that
   * this host trusts. */
  const char* tls_ca;
  /* The client's certificate chain and its key: both or none. */
  const char* tls_cert;
  const char* tls_key;
  /* The name required in the server's certificate; NULL for that of `server`.
   */
  const char* tls_server_name;
} planb_local_options;

/* Follows a table, which the server must allow the caller to watch. Waits until
 * the whole table is there. Returns 0 and sets `table`; or a google.rpc.Code,
 * such as 7 (PERMISSION_DENIED) or 3 (INVALID_ARGUMENT) if `table` is NULL, and
 * puts a text into `error`, of `error_size` bytes, ended by a zero. */
int planb_local_follow(const planb_local_options* options, planb_local** table,
                       char* error, size_t error_size);

/* The same without TLS. Returns NULL on an error. */
planb_local* planb_local_open(const char* server, const char* table,
                              int64_t timeout_ms, int64_t max_staleness_ms,
                              char* error, size_t error_size);

/* Looks up `count` addresses of 16 or 4 bytes each, in network byte order. Puts
 * the id of a next hop, or 0 for none, into each of `next_hops`. All are of one
 * generation, which is put into `generation` if that is not NULL. Returns 0; or
 * a google.rpc.Code, such as 14 if the table is stale. */
int planb_local_lookup_v6(const planb_local* table, const void* addresses,
                          size_t count, uint32_t* next_hops,
                          uint64_t* generation);
int planb_local_lookup_v4(const planb_local* table, const void* addresses,
                          size_t count, uint32_t* next_hops,
                          uint64_t* generation);

/* Where routes to a next hop lead: its origin AS, 0 if unknown, and its AS path
 * as text, such as "64500 64496 {64510,64511}", of which `as_path` gets what
 * fits into `as_path_size` bytes, ended by a zero; 3,072 bytes are enough. Each
 * may be NULL. Returns 0; or 5 (NOT_FOUND) if the table describes no next hop
 * with this id. */
int planb_local_origin(const planb_local* table, uint32_t next_hop,
                       uint32_t* origin_as, char* as_path, size_t as_path_size);

/* The generation that answers lookups; 0 of NULL. */
uint64_t planb_local_generation(const planb_local* table);

/* Waits until lookups are answered from `generation` or a later one. Returns 0;
 * or a google.rpc.Code, such as 4 (DEADLINE_EXCEEDED) after `timeout_ms`. */
int planb_local_wait(const planb_local* table, uint64_t generation,
                     int64_t timeout_ms);

/* Milliseconds since the last word from the server; -1 of NULL. */
int64_t planb_local_staleness_ms(const planb_local* table);

/* NULL is allowed. No other call may be in progress. */
void planb_local_close(planb_local* table);

#ifdef __cplusplus
}
#endif

#endif /* PLANB_CLIENT_LOCAL_TABLE_C_H_ */
