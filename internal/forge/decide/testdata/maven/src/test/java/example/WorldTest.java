package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** What the run must be like. */
class WorldTest {
    @Test
    void settings() {
        assertEquals("hello", System.getProperty("greeting"));
        assertEquals("10", System.getProperty("limit"));
        assertEquals("on", System.getenv("CALC"));
        assertTrue(new File("pom.xml").exists());
    }

    @Test
    void leaves() {
        assertNull(System.getProperty("left"));
        System.setProperty("left", "behind");
        Locale.setDefault(new Locale("tr", "TR"));
        assertEquals(10, new Shop().most());
    }

    @Test
    void resource() throws Exception {
        assertEquals("of a file", Calc.text());
        assertNotNull(ClassLoader.getSystemResource("example/text.txt"));
    }
}
