import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlin.math.sin
import weft.*

private const val TIMER = "Timer set for 10 minutes.\n{\"action\":\"set_timer\",\"minutes\":10}"
private val ask = listOf(Message.user("set a timer for 10 minutes"))

private fun greedy() = GenerateOptions().sampling(Sampling.greedy())

private fun same(expected: Any?, got: Any?) = check(expected == got) { "expected $expected, got $got" }

private fun textOf(events: List<Event>) = events.filterIsInstance<Token>().joinToString("") { it.text }

private suspend fun timer(session: Session) = same(TIMER, textOf(session.generate(ask, greedy()).toList()))

private inline fun <reified T : Throwable> thrown(code: () -> Unit): T {
    try {
        code()
    } catch (error: Throwable) {
        return error as? T ?: throw error
    }
    error("nothing was thrown")
}

private suspend fun reasons(path: String) = load(path).use { model ->
    model.session(SessionOptions()).use { session ->
        val options = greedy().thinkTokens(6).jsonSchema("{\"enum\": [1234]}")
        val events = session.generate(listOf(Message.user("hello")), options).toList()
        same("1234", textOf(events))
        val told = events.filterIsInstance<Reasoning>().joinToString("") { it.text }
        same(told, (events.last() as End).generation.reasoning())
        check(told.isNotEmpty())
        // A collector that wants no more after a piece of the reasoning.
        session.generate(listOf(Message.user("hello")), options).first { it is Reasoning }
        same("1234", textOf(session.generate(listOf(Message.user("hello")), options).toList()))
    }
}

private suspend fun CoroutineScope.hears(path: String) = load(path).use { model ->
    val samples = FloatArray(48000) { (0.3 * sin(1e-6 * it * it)).toFloat() }
    val options = TranscribeOptions().language("de").temperatures(0f)
    val pieces = samples.toList().chunked(1600) { it.toFloatArray() }.asFlow()
    model.transcriber().use { transcriber ->
        val whole = transcriber.transcribe(samples, options).map { "$it ${it.begin()}" }
        check(whole.size > 2)
        same(whole, transcriber.transcribe(pieces, options).toList().map { "$it ${it.begin()}" })
        same(whole.first(), transcriber.transcribe(pieces, options).first().let { "$it ${it.begin()}" })
        repeat(3) {
            val begun = CompletableDeferred<Unit>()
            val endless = flow {
                while (true) {
                    emit(samples)
                    begun.complete(Unit)
                }
            }
            val job = launch { transcriber.transcribe(endless, options).collect {} }
            begun.await()
            job.cancelAndJoin()
            same(whole, transcriber.transcribe(samples, options).map { "$it ${it.begin()}" })
        }
        thrown<WeftException> { transcriber.transcribe(pieces, TranscribeOptions().language("xx")).collect {} }
    }
}

/** The Kotlin library as its users use it. The arguments are a model that reasons, and one that hears. */
fun main(arguments: Array<String>) = runBlocking {
    withTimeout(300_000) {
        reasons(arguments[0])
        hears(arguments[1])
        load().use { model ->
            model.session(SessionOptions()).use { session ->
                val events = session.generate(ask, greedy()).toList()
                same(TIMER, textOf(events))
                val end = (events.last() as End).generation
                same(StopReason.TOKEN, end.stop())
                same(events.size - 1, end.ids().size)

                val few = session.generate(ask, greedy()).take(3).toList()
                same(3, few.size)
                same((few.last() as Token).id, session.ids().last())
                same(TIMER, textOf(few) + textOf(session.proceed(greedy()).toList()))

                repeat(10) {
                    val begun = CompletableDeferred<Unit>()
                    val job = launch {
                        session.generate(ask, greedy().ignoreStopTokens(true)).collect { begun.complete(Unit) }
                    }
                    begun.await()
                    job.cancelAndJoin()
                    timer(session)
                }

                // In a long prompt: it is told how far that is, and a cancelled collector does not wait for all of it.
                var computed = 0
                val inPrompt = CompletableDeferred<Unit>()
                session.prompt(IntArray(480) { 1000 })
                val told = greedy().promptProgress { done, _ ->
                    computed = done
                    inPrompt.complete(Unit)
                }
                val job = launch { session.proceed(told).collect {} }
                inPrompt.await()
                job.cancelAndJoin()
                check(computed < 480) { "the whole prompt was computed" }
                same(480, session.ids().size)
                timer(session)

                val mine = thrown<ArithmeticException> {
                    session.generate(ask, greedy()).collect { throw ArithmeticException("mine") }
                }
                same("mine", mine.message)
                val refused = thrown<WeftException> { session.generate(ask, greedy().head("nope")).collect {} }
                same("WEFT_INVALID_ARGUMENT", refused.code())
                timer(session)

                // The collector may ask the session meanwhile.
                var asked = 0
                session.generate(ask, greedy().logprobs(2)).collect {
                    if (it is Token && it.id >= 0) {
                        same(2, session.logprobs().ids().size)
                        check(session.stats().contextUsed() <= session.ids().size) { "more context than ids" }
                        ++asked
                    }
                }
                check(asked > 3) { "asked $asked times" }

                // A load that is cancelled leaves nothing behind.
                val loading = launch { load() }
                delay(1)
                loading.cancelAndJoin()

                var heard = 0
                session.generate(ask, greedy()).collect {
                    ++heard
                    if (it is Token) launch { session.close() }.join()
                    if (it is End) same(StopReason.CALLER, it.generation.stop())
                }
                same(2, heard)
                thrown<IllegalStateException> { session.generate(ask, greedy()).collect {} }
            }
        }
    }
    println("Kotlin: ok")
}
