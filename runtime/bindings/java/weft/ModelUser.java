package weft;

/** An object that a model makes, and closes when it is closed itself. */
interface ModelUser extends AutoCloseable {
  @Override
  void close();
}
