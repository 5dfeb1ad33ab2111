package weft.demo;

import android.content.Context;
import java.io.IOException;
import weft.WeftException;

/** Says why something failed, in words for somebody who holds a phone: the library's hints are for those who run Linux. */
final class Complaint {
  private Complaint() {}

  static String of(Context context, Exception error) {
    if (error instanceof WeftException) return of(context, (WeftException) error);
    // Providers throw both for a document that is gone, or that may not be read any more.
    if (error instanceof IOException || error instanceof SecurityException)
      return context.getString(R.string.cannot_open, said(error));
    return said(error);
  }

  private static String of(Context context, WeftException error) {
    int advice = advice(error.code());
    return advice == 0 ? error.sentence() : error.sentence() + "\n" + context.getString(advice);
  }

  private static int advice(String code) {
    switch (code) {
      case "WEFT_NO_DEVICE":
        return R.string.advice_no_device;
      case "WEFT_OUT_OF_MEMORY":
        return R.string.advice_memory;
      case "WEFT_BAD_FILE":
      case "WEFT_UNSUPPORTED":
        return R.string.advice_file;
      case "WEFT_DEVICE_LOST":
        return R.string.advice_again;
      default:
        return 0;
    }
  }

  private static String said(Exception error) {
    return error.getMessage() == null ? error.toString() : error.getMessage();
  }
}
