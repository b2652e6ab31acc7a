// SPDX-License-Identifier: Apache-2.0

// Steps through code by the trap flag; see instruction_count.h.

#include "lpm/testing/instruction_count.h"

#include <signal.h>
#include <ucontext.h>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"

namespace planb {
namespace {

#if !defined(__x86_64__)
constexpr char kWhyNot[] = "instructions are counted on x86-64 only";
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr char kWhyNot[] =
    "a sanitizer's instructions would be counted: use a build without one";
#else
#define PLANB_CAN_COUNT 1
#endif

#if PLANB_CAN_COUNT

// What the handler writes. It runs in the thread that counts, between two of
// its instructions.
volatile uint64_t steps = 0;
volatile greg_t last_instruction = 0;

// The C library moves and fills thousands of bytes by one `rep` instruction,
// with a trap for each byte. This does all of it at once and leaves nothing to
// repeat.
void FinishRepeat(greg_t* registers) {
  const auto* const code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  constexpr greg_t kDownwards = 0x400;
  if (code[0] != 0xf3 || (registers[REG_EFL] & kDownwards) != 0) return;
  if (code[1] == 0xa4) {
    __asm__ volatile("rep movsb"
                     : "+D"(registers[REG_RDI]), "+S"(registers[REG_RSI]),
                       "+c"(registers[REG_RCX])
                     :
                     : "memory");
  } else if (code[1] == 0xaa) {
    __asm__ volatile("rep stosb"
                     : "+D"(registers[REG_RDI]), "+c"(registers[REG_RCX])
                     : "a"(registers[REG_RAX])
                     : "memory");
  }
}

// The kernel clears the trap flag for the handler and sets it again on return.
// Within a repeated instruction the next one to execute is still the same.
void OnStep(int, siginfo_t*, void* context) {
  greg_t* const registers =
      static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (registers[REG_RIP] != last_instruction) steps = steps + 1;
  last_instruction = registers[REG_RIP];
  FinishRepeat(registers);
}

// The stack below is stepped over: it may be the caller's red zone. Traps begin
// after the instruction that follows popfq, and end after the last popfq.
[[gnu::always_inline]] inline void StartSteps() {
  __asm__ volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushfq\n\t"
      "orq $0x100, (%%rsp)\n\t"
      "popfq\n\t"
      "leaq 128(%%rsp), %%rsp"
      :
      :
      : "memory", "cc");
}
[[gnu::always_inline]] inline void StopSteps() {
  __asm__ volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushfq\n\t"
      "andq $~0x100, (%%rsp)\n\t"
      "popfq\n\t"
      "leaq 128(%%rsp), %%rsp"
      :
      :
      : "memory", "cc");
}

// Never inlined, so that what it adds is the same for every region.
[[gnu::noinline]] uint64_t Steps(absl::FunctionRef<void()> region) {
  steps = 0;
  last_instruction = 0;
  StartSteps();
  region();
  StopSteps();
  return steps;
}

// An empty function behind a reference, like any region.
void Nothing() { __asm__ volatile(""); }

#endif  // PLANB_CAN_COUNT

}  // namespace

absl::StatusOr<uint64_t> CountInstructions(absl::FunctionRef<void()> region) {
#if PLANB_CAN_COUNT
  struct sigaction action = {}, before = {};
  action.sa_sigaction = OnStep;
  action.sa_flags = SA_SIGINFO;
  sigset_t trap, mask;
  sigemptyset(&trap);
  sigaddset(&trap, SIGTRAP);
  ABSL_RAW_CHECK(sigaction(SIGTRAP, &action, &before) == 0 &&
                     pthread_sigmask(SIG_UNBLOCK, &trap, &mask) == 0,
                 "cannot take SIGTRAP");
  const uint64_t around = Steps([] { Nothing(); });
  const uint64_t all = around == 0 ? 0 : Steps(region);
  ABSL_RAW_CHECK(pthread_sigmask(SIG_SETMASK, &mask, nullptr) == 0 &&
                     sigaction(SIGTRAP, &before, nullptr) == 0,
                 "cannot give SIGTRAP back");
  if (around == 0) {
    return absl::UnimplementedError("this machine ignores the trap flag");
  }
  ABSL_RAW_CHECK(all >= around, "less than nothing was counted");
  return all - around;
#else
  static_cast<void>(region);
  return absl::UnimplementedError(kWhyNot);
#endif
}

}  // namespace planb
