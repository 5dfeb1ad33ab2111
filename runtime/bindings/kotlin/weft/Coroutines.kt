package weft

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.withContext

/** An element of the flow of [generate]. */
sealed interface Event

/** A token's id, and the text that it completes; id -1: text that was held back for stop strings. */
data class Token(val id: Int, val text: String) : Event

/** A piece of the reasoning, if it is told apart from the answer; see [TokenListener.onReasoning]. */
data class Reasoning(val text: String) : Event

/** The last event. */
data class End(val generation: Generation) : Event

/** Loads a model without blocking the caller's thread; see [Weft.load]. If it is cancelled, the model is closed once it is there. */
suspend fun load(
    path: String? = null,
    options: ModelOptions = ModelOptions(),
    dispatcher: CoroutineDispatcher = Dispatchers.IO,
): Model {
    var model: Model? = null
    try {
        return withContext(dispatcher) { Weft.load(path, options).also { model = it } }
    } catch (end: CancellationException) {
        model?.close()
        throw end
    }
}

/**
 * Answers a conversation; see [Session.generate]. The generation begins when the flow is collected and is never ahead of its
 * collector, which may call the session's getters. If the collector is cancelled, or wants no more, the generation ends after the
 * token that was told last, and the flow ends after that: the session can be used at once.
 */
fun Session.generate(
    messages: List<Message>,
    options: GenerateOptions = GenerateOptions(),
    dispatcher: CoroutineDispatcher = Dispatchers.IO,
): Flow<Event> = flowOf(dispatcher) { listener -> generate(messages, options, listener) }

/** Continues what is in the context, as [generate] does; see [Session.proceed]. */
fun Session.proceed(
    options: GenerateOptions = GenerateOptions(),
    dispatcher: CoroutineDispatcher = Dispatchers.IO,
): Flow<Event> = flowOf(dispatcher) { listener -> proceed(options, listener) }

/**
 * Hears a recording in pieces, and tells each segment; see [Transcriber]. The recording begins when the flow is collected, and a
 * piece is heard before the next one is asked for. A collector that is cancelled, or wants no more, ends the recording.
 */
fun Transcriber.transcribe(
    pieces: Flow<FloatArray>,
    options: TranscribeOptions = TranscribeOptions(),
    dispatcher: CoroutineDispatcher = Dispatchers.IO,
): Flow<Segment> = flow {
    val told = mutableListOf<Segment>()
    begin(options) { told.add(it) }

    suspend fun hear(call: () -> Unit) {
        coroutineScope {
            val heard = async(dispatcher) {
                try {
                    call()
                } catch (error: WeftException) {
                    ensureActive() // what is cancelled fails as such
                    throw error
                }
            }
            try {
                heard.await()
            } catch (end: CancellationException) {
                this@transcribe.cancel()
                throw end
            }
        }
        told.forEach { emit(it) }
        told.clear()
    }
    pieces.collect { hear { feed(*it) } }
    hear { finish() }
}

/**
 * Turns of a generation and its collector. While the generation waits, it leaves the session's monitor, so that the collector can call
 * synchronized getters.
 */
private class Turns(private val session: Any) {
    private var wanted = false
    @Volatile private var ended = false

    /** Returns false once the generation is to end. The caller has the session's monitor. */
    fun await(): Boolean {
        synchronized(session) {
            @Suppress("PLATFORM_CLASS_MAPPED_TO_KOTLIN")
            while (!wanted && !ended) (session as Object).wait(10) // end() does not have the monitor, and wakes nobody
            wanted = false
        }
        return !ended
    }

    /** The collector wants the next token. */
    fun next() = synchronized(session) {
        wanted = true
        @Suppress("PLATFORM_CLASS_MAPPED_TO_KOTLIN")
        (session as Object).notifyAll()
    }

    fun end() {
        ended = true
    }
}

private fun Session.flowOf(dispatcher: CoroutineDispatcher, call: (TokenListener) -> Generation): Flow<Event> = flow {
    val tokens = Channel<Event>()
    val turns = Turns(this@flowOf)
    val listener = object : TokenListener {
        private fun tell(event: Event) = tokens.trySendBlocking(event).isSuccess && turns.await()

        override fun onToken(id: Int, text: String) = tell(Token(id, text))

        override fun onReasoning(text: String) = tell(Reasoning(text))

        override fun onCancel() = turns.end()
    }
    coroutineScope {
        val generation = async(dispatcher) {
            try {
                call(listener)
            } finally {
                tokens.close()
            }
        }
        try {
            for (token in tokens) {
                emit(token)
                turns.next()
            }
            emit(End(generation.await()))
        } finally {
            tokens.cancel()
            cancel() // the session's: does nothing after the end
        }
    }
}
