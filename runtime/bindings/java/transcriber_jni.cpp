// The native methods of weft.Native that hear speech.
#include <weft/audio.h>

#include <memory>
#include <string>
#include <vector>

#include "support.h"

using namespace weft::jni;

namespace {

// A handle of Java. C calls back in the call of Java that is under way.
struct Ears {
  weft_listener* listener = nullptr;
  const Callback* now = nullptr;
};

int on_heard(void* user, const weft_heard* heard) {
  const Callback* callback = static_cast<Ears*>(user)->now;
  JNIEnv* env = callback->env;
  if (env->ExceptionCheck()) return 1;
  return guard(env, [&] {
           const jbyteArray text = bytes(env, heard->text);
           std::vector<double> times;  // of each word: begin and end
           std::string words;          // each ends with a zero
           for (size_t i = 0; i < heard->word_count; ++i) {
             times.insert(times.end(), {heard->words[i].begin, heard->words[i].end});
             words.append(heard->words[i].text).push_back('\0');
           }
           const jbyteArray word_texts = bytes(env, words.data(), words.size());
           const jdoubleArray word_times = checked(env, env->NewDoubleArray(static_cast<jsize>(times.size())));
           env->SetDoubleArrayRegion(word_times, 0, static_cast<jsize>(times.size()), times.data());
           checked(env);
           const jboolean go_on =
               env->CallBooleanMethod(callback->object, java.on_segment, heard->begin, heard->end, text,
                                      heard->mean_logprob, heard->no_speech, word_texts, word_times);
           checked(env);
           for (const jobject local : {jobject{text}, jobject{word_texts}, jobject{word_times}})
             env->DeleteLocalRef(local);  // a recording may be long
           return go_on ? 1 : -1;
         }) <= 0;
}

}  // namespace

NATIVE(jlong, listenerCreate)(JNIEnv* env, jclass, jlong model) {
  return guard(env, [&] {
    auto ears = std::make_unique<Ears>();
    check(env, [&](weft_error* error) { return weft_listener_create(as<weft_model>(model), &ears->listener, error); });
    return as_handle(ears.release());
  });
}

NATIVE(void, useDuty)(JNIEnv* env, jclass, jlong user, jboolean listens, jlong duty) {
  guard(env, [&] {
    check(env, [&](weft_error* error) {
      return listens ? weft_listener_use_duty(as<Ears>(user)->listener, as<weft_duty>(duty), error)
                     : weft_session_use_duty(as<weft_session>(user), as<weft_duty>(duty), error);
    });
  });
}

NATIVE(void, listenerFree)(JNIEnv*, jclass, jlong handle) {
  const std::unique_ptr<Ears> ears(as<Ears>(handle));
  weft_listener_free(ears->listener);
}

NATIVE(void, listenerBegin)
(JNIEnv* env, jclass, jlong handle, jbyteArray language, jboolean translate, jbyteArray prompt, jint samples_per_second,
 jfloatArray temperatures, jboolean words) {
  guard(env, [&] {
    auto* const ears = as<Ears>(handle);
    const Text language_text(env, language), prompt_text(env, prompt);
    const std::vector<float> tried = temperatures ? floats_of(env, temperatures) : std::vector<float>();
    weft_listen_options options = weft_listen_options_default();
    options.language = language_text.get();
    options.translate = translate;
    options.prompt = prompt_text.get();
    options.samples_per_second = static_cast<uint32_t>(samples_per_second);
    options.temperatures = temperatures ? tried.data() : nullptr;
    options.temperature_count = tried.size();
    options.words = words;
    options.callback = on_heard;
    options.user = ears;
    check(env, [&](weft_error* error) { return weft_listener_begin(ears->listener, &options, error); });
    weft_listener_clear_cancel(ears->listener);
  });
}

// samples null: the recording ends.
NATIVE(void, listenerHear)(JNIEnv* env, jclass, jlong handle, jfloatArray samples, jobject transcriber) {
  guard(env, [&] {
    auto* const ears = as<Ears>(handle);
    const std::vector<float> heard = samples ? floats_of(env, samples) : std::vector<float>();
    const Callback callback{env, transcriber};
    ears->now = &callback;
    check(env, [&](weft_error* error) {
      return samples ? weft_listener_feed(ears->listener, heard.data(), heard.size(), error)
                     : weft_listener_finish(ears->listener, error);
    });
  });
}

NATIVE(jbyteArray, listenerLanguage)(JNIEnv* env, jclass, jlong handle) {
  return guard(env, [&] { return bytes(env, weft_listener_language(as<Ears>(handle)->listener)); });
}

NATIVE(void, listenerCancel)(JNIEnv*, jclass, jlong handle) { weft_listener_cancel(as<Ears>(handle)->listener); }
