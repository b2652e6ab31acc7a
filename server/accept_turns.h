// Listeners that do not keep a thread for themselves. Whoever accepts does so
// until nobody is left; clients that come as fast as they are turned away would
// hold him, and the streams that his thread serves, for ever. So after some he
// hands the listener over to a thread that does nothing else, and gets from
// there who is let in, until nobody was turned away for a while.
//
// To keep gRPC's threads out of it meanwhile, this defines epoll_ctl, which the
// linker prefers to libc's in the whole process: it remembers what is asked for
// listeners, asks for nothing while one is handed over, and wakes those who
// waited for it by an eventfd in its place. (epoll(7))

#ifndef PLANB_SERVER_ACCEPT_TURNS_H_
#define PLANB_SERVER_ACCEPT_TURNS_H_

namespace planb::server {

// Connections turned away in one turn.
constexpr int kAcceptTurn = 64;

// What an attempt to accept came to, if not to a connection.
constexpr int kNobodyWaits = -1;
constexpr int kTurnedAway = -2;
constexpr int kTryLater = -3;  // somebody waits, but there is no file for him

// Tries to accept once, with accept4's flags: a connection, or one of these.
using TryAccept = int (*)(int fd, int flags);

// Counts one that was turned away. True if they make a turn in this second, so
// that the listener should be handed over. Roughly: what threads count twice or
// not at all makes no difference. Thread-safe.
bool TurnIsOver();

// Hands the listener `fd` over until a second passes in which nobody there was
// turned away. False: nobody watches it by epoll, so nobody could be told who
// is let in. Thread-safe.
bool HandOver(int fd, int flags, TryAccept try_accept);

// Of a listener that is, or was, handed over: a connection from there, or
// kNobodyWaits as long as it is; else kTryLater, and it is the caller's again.
// Thread-safe.
int TakeAccepted(int fd);

// To be called before `fd` is closed.
void ForgetListener(int fd);

}  // namespace planb::server

#endif  // PLANB_SERVER_ACCEPT_TURNS_H_
