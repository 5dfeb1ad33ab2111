// weft serve: an OpenAI-compatible server with a chat page.
#include <signal.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "../weft/common.h"
#include "door.h"
#include "http_server.h"
#include "service.h"
#include "systemd.h"

namespace weft::cli {
namespace {

struct ServeArgs {
  ModelArgs model;
  std::vector<std::string> models;  // empty: the installed one
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::optional<std::uint16_t> admin_port;
  std::string unix_path, key, keys_file, log, cors, states, lora, mmproj, config, speculate = "off";
  std::vector<std::string> hosts;
  bool no_key = false;
  std::uint32_t sessions = 8, queue = 64, deadline = 600, drain = 0, decode_share = 50, duty = 100, memory = 256,
                states_limit = 1024;
};

// Ctrl-C and SIGTERM, and SIGHUP if it is wanted. The first two end the program at once before arm() and after the
// first one; in between, wait() tells of them. Must be made before any thread, so that all block the signals.
class Signals {
 public:
  explicit Signals(bool hangups) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (hangups) sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::thread([set, state = state_] {
      for (int signal = 0; sigwait(&set, &signal) == 0;) {
        const std::lock_guard lock(state->mutex);
        bool& told = signal == SIGHUP ? state->hung_up : state->told;
        if (signal != SIGHUP && (!state->armed || told)) std::_Exit(128 + signal);
        told = true;
        state->changed.notify_all();
      }
    }).detach();
  }
  void arm() {
    const std::lock_guard lock(state_->mutex);
    state_->armed = true;
  }
  // True if one to end came, at the latest after a second.
  bool wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->told || state_->hung_up; });
    return state_->told;
  }
  // True if a SIGHUP came since the last call.
  bool take_hangup() {
    const std::lock_guard lock(state_->mutex);
    return std::exchange(state_->hung_up, false);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool armed = false, told = false, hung_up = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Accepts connections until it is destroyed.
class Accepting {
 public:
  explicit Accepting(serve::HttpServer& server) : server_(server) { server.start(); }
  ~Accepting() { server_.stop(); }

 private:
  serve::HttpServer& server_;
};

// local: only this machine can reach the server.
void check_access(const ServeArgs& args, bool local) {
  const bool keys = !args.key.empty() || !args.keys_file.empty();
  if (keys && args.no_key) throw UsageError("--no-key", "it contradicts --api-key and --api-keys");
  if (!local && !keys && !args.no_key)
    throw UsageError("--host", "other machines can reach this address: it requires --api-key KEY, or --no-key");
  const bool site = args.cors.starts_with("http://") || args.cors.starts_with("https://");
  const std::size_t name = args.cors.find("//") + 2;
  const bool origin = site && args.cors.size() > name && std::ranges::all_of(args.cors.substr(name), [](char c) {
                        return c > ' ' && c <= '~' && c != '/';
                      });
  if (!args.cors.empty() && args.cors != "*" && !origin)
    throw UsageError("--cors", "it must be an origin such as https://app.example, or *");
}

std::string at(const std::string& host, int port) {
  const bool v6 = host.find(':') != host.npos;
  return format("http://%s:%d/", (v6 ? "[" + host + "]" : host).c_str(), port);
}

// Checks the access and listens. Returns the place as people write it.
std::string listen(const ServeArgs& args, weft::serve::HttpServer& server) {
  // The port of --admin-port is always one of the host.
  const bool loopback = args.host == "127.0.0.1" || args.host == "::1" || args.host == "localhost";
  const bool local_admin = !args.admin_port || loopback;
  if (const int socket = weft::serve::inherited_socket(); socket >= 0) {
    check_access(args, server.adopt(socket) && local_admin);
    return "the socket of LISTEN_FDS";
  }
  check_access(args, (!args.unix_path.empty() || loopback) && local_admin);
  if (!args.unix_path.empty()) {
    server.bind_unix(args.unix_path);
    return "unix:" + args.unix_path;
  }
  return at(args.host, server.bind(args.host, args.port));
}

// Each model with the other options.
std::vector<ModelArgs> model_list(const ServeArgs& args) {
  std::vector<ModelArgs> all(std::max<std::size_t>(args.models.size(), 1), args.model);
  for (std::size_t i = 0; i < args.models.size(); ++i) all[i].model = args.models[i];
  if (all.size() > 1 && !args.states.empty())
    throw UsageError("--states", "contexts are kept for one model, and several are given");
  if (all.size() > 1 && !args.mmproj.empty())
    throw UsageError("--mmproj", "an encoder of pictures is of one model, and several are given");
  if (all.size() > 1 && !args.lora.empty())
    throw UsageError("--lora", "an adapter is of one model, and several are given");
  return all;
}

std::string ability(const weft::serve::Loaded& model) {
  const std::string does = model.engine ? format("%u sessions of %u tokens", model.facts.choices, model.facts.context)
                                        : format("embeddings of %u numbers", model.facts.width);
  return does + " on " + model.model.info().device;
}

// Bodies go back to the system when they are freed. Else glibc keeps some for every few threads: 190 MB were measured.
void return_large_blocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

// After SIGHUP. If the file is wrong, the keys stay as they are.
void reload_keys(const ServeArgs& args, weft::serve::Keys& keys) {
  try {
    keys.set(weft::serve::read_keys(args.key, args.keys_file));
    std::cerr << "weft serve: the keys were read again.\n";
  } catch (const UsageError& error) {
    print_error(error.option(), error.what(), "the keys are those of before");
  } catch (const api::Failure& error) {
    print_error(error.place(), error.sentence(), "the keys are those of before");
  }
}

void serve(const ServeArgs& args) {
  using namespace weft::serve;
  const std::vector<ModelArgs> list = model_list(args);
  return_large_blocks();
  Signals signals(!args.keys_file.empty());
  constexpr std::size_t kOthers = 32;  // requests that are read or refused, besides those that are answered or wait
  constexpr std::size_t kAdmins = 4, kAdminBytes = 1 << 20;
  Metrics metrics;
  RequestLog log(args.log);
  Keys keys(read_keys(args.key, args.keys_file));
  std::vector<std::string> hosts = args.hosts;
  hosts.push_back(args.host);
  Service service(metrics, log, keys, {args.cors, hosts, std::chrono::seconds(args.deadline)});
  Door front(service, args.admin_port ? Door::Kind::api : Door::Kind::everything), back(service, Door::Kind::admin);
  HttpServer server(front, args.sessions + args.queue + kOthers, std::size_t{args.memory} << 20);
  const std::string place = listen(args, server);
  std::optional<HttpServer> admin;
  std::string admin_place;
  if (args.admin_port)
    admin_place =
        ", metrics at " + at(args.host, admin.emplace(back, kAdmins, kAdminBytes).bind(args.host, *args.admin_port));
  std::optional<States> states;
  if (!args.states.empty()) states.emplace(args.states, std::uint64_t{args.states_limit} << 20);
  Models models(
      {list, args.sessions, args.queue, args.speculate == "lookup" ? WEFT_SPECULATE_LOOKUP : WEFT_SPECULATE_OFF,
       args.lora, args.decode_share / 100.0, args.mmproj, args.duty},
      metrics, states ? &*states : nullptr);
  const Accepting accepting(server);  // ends first
  std::optional<Accepting> admin_accepting;
  if (admin) admin_accepting.emplace(*admin);

  const std::string does = ability(*models.get("", [] {}));
  service.set(&models);
  signals.arm();
  std::string names;
  for (const Models::Known& known : models.list()) names += (names.empty() ? "" : ", ") + known.name;
  std::cerr << format("weft serve: %s at %s with %s%s. Ctrl-C ends it.\n", names.c_str(), place.c_str(), does.c_str(),
                      admin_place.c_str());
  notify_manager("READY=1");
  while (!signals.wait()) {
    if (signals.take_hangup()) reload_keys(args, keys);
    if (const std::string broken = models.broken(); !broken.empty())
      throw api::Failure(WEFT_DEVICE_LOST, broken, "device");
    if (server.failed())
      throw api::Failure(WEFT_IO, "the system accepts no more connections", place,
                         "it may have too many open files; start weft serve again");
  }
  notify_manager("STOPPING=1");
  service.drain();
  for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(args.drain);
       server.busy() > 0 && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  service.close();
  models.close();
}

}  // namespace

void add_serve(CLI::App& app) {
  auto args = std::make_shared<ServeArgs>();
  CLI::App* command = app.add_subcommand("serve", "Answer OpenAI's protocol over HTTP, and show a chat page");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  command->remove_option(command->get_option("--model"));
  command
      ->add_option("-m,--model", args->models,
                   "GGUF file, Hugging Face folder, or name of a model that weft pull NAME has downloaded\n"
                   "(default: the installed model); may be given several times: requests name one, which is loaded\n"
                   "then, and --memory-budget is of all together")
      ->type_name("PATH|NAME")
      ->allow_extra_args(false);
  add_ctx_option(command, args->model);
  add_kv_options(command, args->model);
  add_speculate_option(command, args->speculate);
  add_lora_option(command, args->lora);
  command
      ->add_option("--mmproj", args->mmproj,
                   "the encoder of pictures: llama.cpp's GGUF file of it, or a Hugging Face folder; without it, the\n"
                   "model's own folder")
      ->type_name("FILE");
  command
      ->add_option("--host", args->host,
                   "address to listen on; one that other machines can reach requires --api-key or --no-key")
      ->type_name("ADDRESS")
      ->capture_default_str();
  command->add_option("--port", args->port, "port to listen on; 0: any free one")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(0, 65535));
  command
      ->add_option("--admin-port", args->admin_port,
                   "port for /metrics and /slots, which --port then does not have; 0: any free one")
      ->type_name("N")
      ->transform(whole(0, 65535));
  command
      ->add_option("--config", args->config,
                   "TOML file of these options, such as port = 8081 and model = [\"a.gguf\"]; those here come first")
      ->type_name("FILE");
  command->add_option("--unix", args->unix_path, "listen on this local socket, of mode 0600, and on no address")
      ->type_name("PATH");
  command
      ->add_option("--api-key", args->key,
                   "key that requests must have; $WEFT_API_KEY gives it without showing it to other users")
      ->type_name("KEY")
      ->envname("WEFT_API_KEY");
  command
      ->add_option("--api-keys", args->keys_file,
                   "file of keys: lines NAME KEY, and limits of each: requests=N and tokens=N a minute, concurrent=N; "
                   "priority=N: higher ones get a session first. SIGHUP has it read again")
      ->type_name("FILE");
  command
      ->add_option("--allow-host", args->hosts,
                   "name by which a browser may reach the server without a key, besides addresses and localhost")
      ->type_name("NAME");
  command->add_flag("--no-key", args->no_key, "let everyone who can reach the address ask");
  command->add_option("--cors", args->cors, "let pages of this origin call the server; *: of all")->type_name("ORIGIN");
  command->add_option("--sessions", args->sessions, "most requests that are answered at the same time")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(1, WEFT_MAX_BATCH));
  command->add_option("--queue", args->queue, "most requests that wait; more are refused with 429")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(0, 512));
  command
      ->add_option("--decode-share", args->decode_share,
                   "least part of the time, in percent, for answers under way while prompts wait")
      ->type_name("PERCENT")
      ->capture_default_str()
      ->transform(whole(0, 95));
  add_duty_option(command, args->duty);
  command->add_option("--deadline", args->deadline, "most seconds from a request's arrival to the end of its answer")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->transform(whole(1, 86400));
  command->add_option("--memory", args->memory, "most MiB of bodies of all requests; more are refused with 429")
      ->type_name("MIB")
      ->capture_default_str()
      ->transform(whole(8, 1 << 20));
  command->add_option("--drain", args->drain, "most seconds that answers may go on after SIGTERM or Ctrl-C")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->transform(whole(0, 86400));
  command->add_option("--log", args->log, "append a line of JSON for each request; -: to stdout. It has no texts")
      ->type_name("FILE");
  command
      ->add_option("--states", args->states,
                   "folder for computed contexts: of /slots, and of conversations that lose their session")
      ->type_name("FOLDER");
  command->add_option("--states-limit", args->states_limit, "most MiB in that folder")
      ->type_name("MIB")
      ->capture_default_str()
      ->transform(whole(1, 1 << 20));
  command->callback([args] { serve(*args); });
}

}  // namespace weft::cli
