# The reference of tests/validation/test_newreno_ns2.py: one NewReno sender - switch - sink in ns-2.
# usage: ns ns2_newreno.tcl MBPS RTT_MS BUFFER_PACKETS WARMUP_S SECONDS
# The bottleneck has MBPS and the delay RTT/2 each way, the sender's link ten times the rate and a delay of 10 us.
# Prints, over WARMUP_S .. SECONDS: utilisation, goodput in Mb/s, mean of the waiting packets, drops at the
# bottleneck, retransmitted packets, timeouts.
foreach {mbps rtt buffer warmup seconds} $argv {}

Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 1000000
Agent/TCP set maxcwnd_ 0
Agent/TCP set tcpTick_ 0.00001
Agent/TCP set minrto_ 0.2
Agent/TCP set windowInit_ 2

set ns [new Simulator]
ns-random 1
$ns rtproto Static
set host [$ns node]
set switch [$ns node]
set sink [$ns node]
$ns duplex-link $host $switch [expr 10 * $mbps]Mb 10us DropTail
$ns duplex-link $switch $sink ${mbps}Mb [expr $rtt / 2.0]ms DropTail
foreach {a b} [list $host $switch $switch $host $sink $switch] { $ns queue-limit $a $b 1000000 }
$ns queue-limit $switch $sink $buffer
set monitor [$ns monitor-queue $switch $sink ""]
set packets [$monitor get-pkts-integrator]
set tcp [new Agent/TCP/Newreno]
set receiver [new Agent/TCPSink]
$ns attach-agent $host $tcp
$ns attach-agent $sink $receiver
$ns connect $tcp $receiver
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0.0 "$ftp start"

proc observe {} {
    global monitor packets ns tcp
    $packets newpoint [$ns now] [$monitor set pkts_]
    return [list [$monitor set bdepartures_] [$tcp set ack_] [$packets set sum_] [$monitor set pdrops_] \
        [$tcp set nrexmitpack_] [$tcp set nrexmit_]]
}
proc finish {} {
    global before seconds warmup mbps rtt buffer
    set time [expr $seconds - $warmup]
    foreach was $before is [observe] { lappend change [expr double($is) - $was] }
    foreach {bytes acked sum drops again timeouts} $change {
        puts [format "%s,%s,%.5f,%.4f,%.3f,%.0f,%.0f,%.0f" $rtt $buffer [expr $bytes * 8e-6 / $mbps / $time] \
            [expr $acked * 1460 * 8e-6 / $time] [expr $sum / $time] $drops $again $timeouts]
    }
    exit 0
}
$ns at $warmup {set before [observe]}
$ns at $seconds finish
$ns run
