package weft;

/** What a model makes, and closes with itself. */
interface ModelUser extends AutoCloseable {
  @Override
  void close();
}
