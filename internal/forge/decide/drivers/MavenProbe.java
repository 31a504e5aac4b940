package assayjvm;

/** Which probes were passed; sources that are watched call it before every statement. */
public final class MavenProbe {
    public static boolean[] hit = new boolean[0];

    private MavenProbe() {}

    public static void at(int n) {
        boolean[] h = hit;
        if (n < h.length) {
            h[n] = true;
        }
    }
}
