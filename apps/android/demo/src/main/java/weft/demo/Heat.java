package weft.demo;

import android.content.Context;
import android.os.Build;
import android.os.PowerManager;

/** Tells how much of the time the device may be busy, by how warm the phone is. Android 9 does not know. */
final class Heat {
  interface Listener {
    void onShare(float share);
  }

  private Heat() {}

  static void watch(Context context, Listener listener) {
    if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return;
    PowerManager power = context.getSystemService(PowerManager.class);
    power.addThermalStatusListener(status -> listener.onShare(share(status))); // on the main thread
  }

  static float share(int status) {
    if (status >= PowerManager.THERMAL_STATUS_CRITICAL) return 0.1f;
    if (status == PowerManager.THERMAL_STATUS_SEVERE) return 0.25f;
    if (status == PowerManager.THERMAL_STATUS_MODERATE) return 0.5f;
    return 1;
  }
}
