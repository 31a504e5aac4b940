package com.example;

import static org.junit.Assert.assertEquals;

import org.junit.Ignore;
import org.junit.Test;

public class OldTest {
    @Test
    public void adds() {
        assertEquals(3, Cart.sum(1, 2));
    }

    @Test(timeout = 50)
    public void slow() throws Exception {
        Thread.sleep(2000);
    }

    @Ignore
    @Test
    public void ignored() {}
}
