// Sockets of systemd and notices to it, without its library.
#pragma once

namespace weft::serve {

// The first socket that was opened for this process (sd_listen_fds), which listens; -1: no socket was opened for it.
int inherited_socket();

// Tells the manager a state, such as "READY=1" (sd_notify). Does nothing without a manager.
void notify_manager(const char* state);

}  // namespace weft::serve
