// Ctrl-C for commands that write a file: the work ends at its next piece, so that what was written so far goes away.
#pragma once

namespace weft::cli {

// From here on SIGINT, SIGTERM and SIGHUP do not end the program.
void note_interrupts();
bool was_interrupted();

}  // namespace weft::cli
