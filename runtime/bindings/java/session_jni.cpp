// The native methods of weft.Native that need a session.
#include <weft/adapter.h>
#include <weft/conversation.h>
#include <weft/descriptor.h>
#include <weft/duty.h>
#include <weft/lens.h>
#include <weft/profile.h>
#include <weft/soft.h>
#include <cmath>

#include "support.h"

using namespace weft::jni;

namespace {

int on_token(void* user, uint32_t id, const char* text, size_t length) {
  const auto* callback = static_cast<Callback*>(user);
  JNIEnv* env = callback->env;
  if (env->ExceptionCheck()) return 1;
  return guard(env, [&] {
           const jbyteArray array = bytes(env, text, length);
           const jboolean go_on = env->CallBooleanMethod(callback->object, java.on_token, static_cast<jint>(id), array);
           checked(env);
           env->DeleteLocalRef(array);  // a generation may be long
           return go_on ? 1 : -1;
         }) <= 0;
}

int on_reasoning(void* user, const char* text, size_t length) {
  const auto* callback = static_cast<Callback*>(user);
  JNIEnv* env = callback->env;
  if (env->ExceptionCheck()) return 1;
  return guard(env, [&] {
           const jbyteArray array = bytes(env, text, length);
           const jboolean go_on = env->CallBooleanMethod(callback->object, java.on_reasoning, array);
           checked(env);
           env->DeleteLocalRef(array);
           return go_on ? 1 : -1;
         }) <= 0;
}

int on_prompt(void* user, uint32_t done, uint32_t all) {
  const auto* callback = static_cast<Callback*>(user);
  JNIEnv* env = callback->env;
  if (env->ExceptionCheck()) return 1;
  const jboolean go_on =
      env->CallBooleanMethod(callback->object, java.on_prompt, static_cast<jint>(done), static_cast<jint>(all));
  return env->ExceptionCheck() || !go_on;
}

struct LensCallback : Callback {
  size_t width, vocab_size;
};

int on_row(void* user, const weft_lens_row* row) {
  const auto* callback = static_cast<LensCallback*>(user);
  JNIEnv* env = callback->env;
  if (env->ExceptionCheck()) return 1;
  return guard(env, [&] {
           const jfloatArray hidden = floats(env, row->hidden, callback->width),
                             logits = row->logits ? floats(env, row->logits, callback->vocab_size) : nullptr;
           const jboolean go_on = env->CallBooleanMethod(callback->object, java.on_row, static_cast<jint>(row->layer),
                                                         static_cast<jint>(row->position), hidden, logits);
           checked(env);
           env->DeleteLocalRef(hidden);
           env->DeleteLocalRef(logits);
           return go_on ? 1 : -1;
         }) <= 0;
}

}  // namespace

NATIVE(jlong, sessionCreate)(JNIEnv* env, jclass, jlong model, jint context, jint kv, jint kv_values, jint policy) {
  return guard(env, [&] {
    weft_session_options options = weft_session_options_default();
    options.context = static_cast<uint32_t>(context);
    options.kv = static_cast<weft_type>(kv);
    options.kv_values = static_cast<weft_type>(kv_values);
    options.policy = static_cast<weft_policy>(policy);
    weft_session* session = nullptr;
    check(env,
          [&](weft_error* error) { return weft_session_create(as<weft_model>(model), &options, &session, error); });
    return as_handle(session);
  });
}

NATIVE(void, sessionFree)(JNIEnv*, jclass, jlong session) { weft_session_free(as<weft_session>(session)); }

NATIVE(void, setRequest)
(JNIEnv* env, jclass, jlong session, jboolean keep_sampling, jfloat temperature, jint top_k, jfloat top_p, jfloat min_p,
 jfloat repeat_penalty, jlong seed, jfloat presence_penalty, jfloat frequency_penalty, jfloat typical_p,
 jboolean keep_biases, jintArray id_array, jfloatArray bias_array, jobjectArray stop_array, jint logprobs,
 jbyteArray head_text, jboolean lookup, jlong draft, jint grammar_kind, jbyteArray grammar_text,
 jint reasoning_tokens) {
  guard(env, [&] {
    weft_sampling sampling = weft_sampling_default();
    const auto set = [](float& to, jfloat from) {
      if (!std::isnan(from)) to = from;
    };
    set(sampling.temperature, temperature);
    if (top_k >= 0) sampling.top_k = static_cast<uint32_t>(top_k);
    set(sampling.top_p, top_p);
    set(sampling.min_p, min_p);
    set(sampling.repeat_penalty, repeat_penalty);
    sampling.seed = static_cast<uint64_t>(seed);
    set(sampling.presence_penalty, presence_penalty);
    set(sampling.frequency_penalty, frequency_penalty);
    set(sampling.typical_p, typical_p);
    const std::vector<uint32_t> ids = ids_of(env, id_array);
    const std::vector<float> biases = floats_of(env, bias_array);
    const std::vector<Text> stops = texts(env, stop_array);
    std::vector<const char*> pointers;
    for (const Text& stop : stops) pointers.push_back(stop.get());
    const Text head(env, head_text), grammar(env, grammar_text);
    weft_request request = weft_request_default();
    request.sampling = &sampling;
    request.head = head.get();
    request.grammar_kind = static_cast<weft_grammar_kind>(grammar_kind);
    request.grammar = grammar.get();
    request.speculation = draft != 0 ? WEFT_SPECULATE_DRAFT : lookup ? WEFT_SPECULATE_LOOKUP : WEFT_SPECULATE_OFF;
    request.draft = as<weft_model>(draft);
    request.stops = pointers.data();
    request.stop_count = pointers.size();
    request.bias_ids = ids.data();
    request.biases = biases.data();
    request.bias_count = ids.size();
    request.logprobs = static_cast<uint32_t>(logprobs);
    request.separate_reasoning = reasoning_tokens >= 0;
    request.reasoning_tokens = reasoning_tokens >= 0 ? static_cast<uint32_t>(reasoning_tokens) : 0;
    request.keep_sampling = keep_sampling;
    request.keep_biases = keep_biases;
    check(env, [&](weft_error* error) { return weft_session_set_request(as<weft_session>(session), &request, error); });
  });
}

NATIVE(void, setAdapter)(JNIEnv* env, jclass, jlong session, jlong adapter) {
  guard(env, [&] {
    check(env, [&](weft_error* error) {
      return weft_session_set_adapter(as<weft_session>(session), as<weft_adapter>(adapter), error);
    });
  });
}

NATIVE(void, setDuty)(JNIEnv* env, jclass, jlong session, jfloat share) {
  guard(env, [&] {
    check(env, [&](weft_error* error) { return weft_session_set_duty(as<weft_session>(session), share, error); });
  });
}

NATIVE(jlong, dutyCreate)(JNIEnv* env, jclass) {
  return guard(env, [&] {
    weft_duty* duty = nullptr;
    check(env, [&](weft_error* error) { return weft_duty_create(&duty, error); });
    return as_handle(duty);
  });
}

NATIVE(void, dutyFree)(JNIEnv*, jclass, jlong duty) { weft_duty_free(as<weft_duty>(duty)); }

NATIVE(void, dutySetShare)(JNIEnv* env, jclass, jlong duty, jfloat share) {
  guard(env,
        [&] { check(env, [&](weft_error* error) { return weft_duty_set_share(as<weft_duty>(duty), share, error); }); });
}

NATIVE(jdouble, dutyBusySeconds)(JNIEnv*, jclass, jlong duty) { return weft_duty_busy_seconds(as<weft_duty>(duty)); }

NATIVE(void, prompt)(JNIEnv* env, jclass, jlong session, jintArray array) {
  guard(env, [&] {
    const std::vector<uint32_t> ids = ids_of(env, array);
    check(env, [&](weft_error* error) {
      return weft_session_prompt(as<weft_session>(session), ids.data(), ids.size(), error);
    });
  });
}

// parts: an int[] of ids, or a float[] of whole rows, each.
NATIVE(void, promptParts)(JNIEnv* env, jclass, jlong session, jobjectArray parts, jint width) {
  guard(env, [&] {
    const size_t count = length_of(env, parts);
    std::vector<std::vector<uint32_t>> ids(count);
    std::vector<std::vector<float>> rows(count);
    std::vector<weft_prompt_part> list(count);
    for (size_t i = 0; i < count; ++i) {
      const jobject part = checked(env, env->GetObjectArrayElement(parts, static_cast<jsize>(i)));
      if (env->IsInstanceOf(part, java.ints)) {
        ids[i] = ids_of(env, static_cast<jintArray>(part));
        list[i] = {ids[i].data(), nullptr, ids[i].size()};
      } else {
        rows[i] = floats_of(env, static_cast<jfloatArray>(part));
        list[i] = {nullptr, rows[i].data(), rows[i].size() / static_cast<size_t>(width)};
      }
      env->DeleteLocalRef(part);
    }
    check(env, [&](weft_error* error) {
      return weft_session_prompt_parts(as<weft_session>(session), list.data(), list.size(), error);
    });
  });
}

NATIVE(jlong, conversationCreate)(JNIEnv* env, jclass, jlong session) {
  return guard(env, [&] {
    weft_conversation* conversation = nullptr;
    check(env, [&](weft_error* error) {
      return weft_conversation_create(as<weft_session>(session), nullptr, &conversation, error);
    });
    return as_handle(conversation);
  });
}

NATIVE(void, conversationFree)(JNIEnv*, jclass, jlong conversation) {
  weft_conversation_free(as<weft_conversation>(conversation));
}

NATIVE(void, conversationSet)(JNIEnv* env, jclass, jlong conversation, jbyteArray text) {
  guard(env, [&] {
    const Text json(env, text);
    check(env, [&](weft_error* error) {
      return weft_conversation_set(as<weft_conversation>(conversation), json.get(), error);
    });
  });
}

NATIVE(jint, generate)
(JNIEnv* env, jclass, jlong session, jlong conversation, jint max_tokens, jboolean ignore_stop_tokens,
 jboolean tell_prompt, jobject object) {
  return guard(env, [&] {
    Callback callback{env, object};
    weft_generate_options options = weft_generate_options_default();
    options.max_tokens = static_cast<uint32_t>(max_tokens);
    options.ignore_stop_tokens = ignore_stop_tokens;
    options.callback = on_token;
    options.reasoning_callback = on_reasoning;
    if (tell_prompt) options.prompt_callback = on_prompt;
    options.user = &callback;
    weft_stop stop = WEFT_STOP_LENGTH;
    check(env, [&](weft_error* error) {
      return conversation != 0 ? weft_conversation_answer(as<weft_conversation>(conversation), &options, &stop, error)
                               : weft_session_generate(as<weft_session>(session), &options, &stop, error);
    });
    return static_cast<jint>(stop);
  });
}

NATIVE(void, cancel)(JNIEnv*, jclass, jlong session) { weft_session_cancel(as<weft_session>(session)); }

NATIVE(void, clearCancel)(JNIEnv*, jclass, jlong session) { weft_session_clear_cancel(as<weft_session>(session)); }

NATIVE(jfloatArray, score)(JNIEnv* env, jclass, jlong session, jintArray array) {
  return guard(env, [&] {
    const std::vector<uint32_t> ids = ids_of(env, array);
    std::vector<float> nll(ids.size());
    check(env, [&](weft_error* error) {
      return weft_session_score(as<weft_session>(session), ids.data(), ids.size(), nll.data(), error);
    });
    nll.pop_back();  // there are two ids at least
    return floats(env, nll);
  });
}

NATIVE(jfloatArray, logits)(JNIEnv* env, jclass, jlong session, jint vocab_size) {
  return guard(env, [&] {
    std::vector<float> result(static_cast<size_t>(vocab_size));
    check(env, [&](weft_error* error) {
      return weft_session_logits(as<weft_session>(session), result.data(), result.size(), error);
    });
    return floats(env, result);
  });
}

NATIVE(void, lens)
(JNIEnv* env, jclass, jlong session, jint first, jint count, jintArray layers, jboolean logits, jint width,
 jint vocab_size, jobject listener) {
  guard(env, [&] {
    const std::vector<uint32_t> chosen = layers ? ids_of(env, layers) : std::vector<uint32_t>();
    weft_lens_options options = weft_lens_options_default();
    options.first = static_cast<uint32_t>(first);
    options.count = static_cast<uint32_t>(count);
    options.without_logits = !logits;
    options.layers = layers ? chosen.data() : nullptr;
    options.layer_count = chosen.size();
    LensCallback callback{{env, listener}, static_cast<size_t>(width), static_cast<size_t>(vocab_size)};
    check(env, [&](weft_error* error) {
      return weft_session_lens(as<weft_session>(session), &options, on_row, &callback, error);
    });
  });
}

NATIVE(void, setTunedLens)(JNIEnv* env, jclass, jlong session, jbyteArray folder) {
  guard(env, [&] {
    const Text text(env, folder);
    check(env,
          [&](weft_error* error) { return weft_session_set_tuned_lens(as<weft_session>(session), text.get(), error); });
  });
}

NATIVE(jobject, logprobs)(JNIEnv* env, jclass, jlong session) {
  return guard(env, [&] {
    float chosen = 0;
    std::vector<uint32_t> ids(WEFT_MAX_LOGPROBS);
    std::vector<float> values(WEFT_MAX_LOGPROBS);
    size_t count = 0;
    check(env, [&](weft_error* error) {
      return weft_session_get_logprobs(as<weft_session>(session), &chosen, ids.data(), values.data(), ids.size(),
                                       &count, error);
    });
    ids.resize(count);
    values.resize(count);
    const jintArray id_array = ints(env, ids);
    const jfloatArray value_array = floats(env, values);
    return checked(env, env->NewObject(java.logprobs, java.new_logprobs, chosen, id_array, value_array));
  });
}

NATIVE(jintArray, ids)(JNIEnv* env, jclass, jlong session) {
  return guard(env, [&] {
    return take_ids(env, 1024, [&](auto... out) { return weft_session_get_ids(as<weft_session>(session), out...); });
  });
}

NATIVE(void, save)(JNIEnv* env, jclass, jlong session, jbyteArray path, jbyteArray note) {
  guard(env, [&] {
    const Text file(env, path), text(env, note);
    check(env, [&](weft_error* error) {
      return weft_session_save(as<weft_session>(session), file.get(), text.get(), error);
    });
  });
}

NATIVE(jbyteArray, restore)(JNIEnv* env, jclass, jlong session, jbyteArray path) {
  return guard(env, [&] {
    const Text file(env, path);
    return take(env, [&](char** note, weft_error* error) {
      return weft_session_restore(as<weft_session>(session), file.get(), note, error);
    });
  });
}

NATIVE(void, saveTo)(JNIEnv* env, jclass, jlong session, jint descriptor, jbyteArray note) {
  guard(env, [&] {
    const Text text(env, note);
    check(env, [&](weft_error* error) {
      return weft_session_save_fd(as<weft_session>(session), descriptor, text.get(), error);
    });
  });
}

NATIVE(jbyteArray, restoreFrom)(JNIEnv* env, jclass, jlong session, jint descriptor) {
  return guard(env, [&] {
    return take(env, [&](char** note, weft_error* error) {
      return weft_session_restore_fd(as<weft_session>(session), descriptor, note, error);
    });
  });
}

NATIVE(void, reset)(JNIEnv*, jclass, jlong session) { weft_session_reset(as<weft_session>(session)); }

NATIVE(jobject, stats)(JNIEnv* env, jclass, jlong session) {
  return guard(env, [&] {
    weft_stats s;
    weft_session_get_stats(as<weft_session>(session), &s, sizeof s);
    const auto number = [](uint64_t value) { return static_cast<jlong>(value); };
    return checked(
        env, env->NewObject(java.stats, java.new_stats, static_cast<jint>(s.context_used),
                            static_cast<jint>(s.stop_string), number(s.prompt_tokens), number(s.reused_tokens),
                            number(s.decoded_tokens), s.prompt_seconds, s.decode_seconds, s.decode_cpu_seconds,
                            s.first_token_seconds, number(s.readback_bytes), number(s.kv_bytes),
                            number(s.scratch_bytes), s.read_gigabytes_per_second, s.device_read_gigabytes_per_second,
                            number(s.head_tokens), number(s.head_rows), number(s.head_bytes), number(s.head_refined)));
  });
}

NATIVE(jbyteArray, profile)(JNIEnv* env, jclass, jlong session, jint tokens, jint repeat) {
  return guard(env, [&] {
    return take(env, [&](char** json, weft_error* error) {
      return weft_session_profile(as<weft_session>(session), static_cast<uint32_t>(tokens),
                                  static_cast<uint32_t>(repeat), json, error);
    });
  });
}
