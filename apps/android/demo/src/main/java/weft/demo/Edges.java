package weft.demo;

import android.app.Activity;
import android.graphics.Insets;
import android.os.Build;
import android.view.View;
import android.view.WindowInsets;

/** Draws below the system's bars, and keeps the views out from under bars, cutouts and the keyboard. */
final class Edges {
  private Edges() {}

  @SuppressWarnings("deprecation") // Android 9 and 10 have the older methods only
  static void use(Activity activity, View root) {
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) activity.getWindow().setDecorFitsSystemWindows(false);
    else
      root.setSystemUiVisibility(
          View.SYSTEM_UI_FLAG_LAYOUT_STABLE | View.SYSTEM_UI_FLAG_LAYOUT_FULLSCREEN | View.SYSTEM_UI_FLAG_LAYOUT_HIDE_NAVIGATION);
    root.setOnApplyWindowInsetsListener(
        (view, insets) -> {
          pad(view, insets);
          return insets;
        });
  }

  @SuppressWarnings("deprecation")
  private static void pad(View view, WindowInsets insets) {
    if (Build.VERSION.SDK_INT < Build.VERSION_CODES.R) {
      view.setPadding(
          insets.getSystemWindowInsetLeft(), insets.getSystemWindowInsetTop(), insets.getSystemWindowInsetRight(),
          insets.getSystemWindowInsetBottom()); // with the keyboard
      return;
    }
    Insets all =
        insets.getInsets(WindowInsets.Type.systemBars() | WindowInsets.Type.displayCutout() | WindowInsets.Type.ime());
    view.setPadding(all.left, all.top, all.right, all.bottom);
  }
}
