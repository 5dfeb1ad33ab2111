package weft.demo;

import android.app.Notification;
import android.app.NotificationChannel;
import android.app.NotificationManager;
import android.app.PendingIntent;
import android.app.Service;
import android.content.Context;
import android.content.Intent;
import android.content.pm.ServiceInfo;
import android.graphics.drawable.Icon;
import android.os.Build;
import android.os.IBinder;
import android.os.PowerManager;

/**
 * Keeps the process while it answers, also when the user leaves the app, and the processor awake when the screen is off.
 * Its notification can stop the answer.
 */
public final class AnswerService extends Service {
  static final String STOP = "weft.demo.STOP";
  private static final String CHANNEL = "answers";
  private static final int ID = 1;
  private static final long LONGEST_AWAKE_MS = 10 * 60 * 1000;

  private static AnswerService running; // on the main thread only
  private int last; // number of the last start
  private PowerManager.WakeLock awake;

  /** False: the system allows it not now. Then the answer ends when the user leaves. */
  static boolean start(Context context) {
    try {
      context.startForegroundService(new Intent(context, AnswerService.class));
      return true;
    } catch (IllegalStateException | SecurityException refused) {
      return false;
    }
  }

  /** A start that has not arrived yet stays: the system ends an app whose service is stopped before startForeground. */
  static void stop() {
    if (running == null) return;
    running.letSleep();
    running.stopSelf(running.last);
  }

  @Override
  public void onCreate() {
    super.onCreate();
    awake = getSystemService(PowerManager.class).newWakeLock(PowerManager.PARTIAL_WAKE_LOCK, "weft:answer");
    awake.setReferenceCounted(false); // so that each start renews it, and one release ends it
  }

  @Override
  public int onStartCommand(Intent intent, int flags, int id) {
    // Android demands it after each start, also if the answer is complete by now.
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.UPSIDE_DOWN_CAKE)
      startForeground(ID, notification(), ServiceInfo.FOREGROUND_SERVICE_TYPE_SPECIAL_USE);
    else startForeground(ID, notification());
    running = this;
    last = id;
    boolean answers = Chat.instance != null && Chat.instance.generates();
    if (answers && intent != null && STOP.equals(intent.getAction())) Chat.instance.stop();
    if (answers) awake.acquire(LONGEST_AWAKE_MS);
    else stopSelf(id);
    return START_NOT_STICKY;
  }

  @Override
  public void onDestroy() {
    if (running == this) running = null;
    letSleep();
    super.onDestroy();
  }

  private void letSleep() {
    if (awake.isHeld()) awake.release();
  }

  private Notification notification() {
    NotificationManager manager = getSystemService(NotificationManager.class);
    String title = getString(R.string.answering);
    manager.createNotificationChannel(new NotificationChannel(CHANNEL, title, NotificationManager.IMPORTANCE_LOW));
    Intent show = new Intent(this, ChatActivity.class), stop = new Intent(this, AnswerService.class).setAction(STOP);
    Icon icon = Icon.createWithResource(this, R.drawable.ic_stop);
    return new Notification.Builder(this, CHANNEL)
        .setSmallIcon(R.drawable.ic_notify)
        .setContentTitle(title)
        .setContentText(Chat.instance == null ? "" : Chat.instance.name())
        .setContentIntent(PendingIntent.getActivity(this, 0, show, PendingIntent.FLAG_IMMUTABLE))
        .addAction(
            new Notification.Action.Builder(
                    icon, getString(R.string.stop), PendingIntent.getService(this, 0, stop, PendingIntent.FLAG_IMMUTABLE))
                .build())
        .setOngoing(true)
        .build();
  }

  @Override
  public IBinder onBind(Intent intent) {
    return null;
  }
}
